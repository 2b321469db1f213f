"""The segment log against a list: whatever is done to both, they hold the same frames."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from quiver.log.files.directories import Directories
from quiver.log.recovery.reserved_file import ReservedFile
from quiver.model.errors import OffsetOutOfRange
from quiver.records.header import StampedFrame
from quiver.system.files import Files
from unit.log.frames import frame_at, frame_bytes
from unit.log.logs import abandon, append, close, end_of_epoch, open_log, read_all, segment_files

PRIORITIES = st.sampled_from([2, 2, 2, 2, 2, 0, 1, 3, 4])
SIZES = st.one_of(st.integers(0, 300), st.integers(3_000, 9_000), st.just(20_000))


class LogAgainstList(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp()) / "log"
        self.log = open_log(self.directory, max_open=2)
        self.frames: list[StampedFrame] = []
        self.time_ms = 1_000
        self.epoch = 1

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            abandon(self.log)
            shutil.rmtree(self.directory.parent)

    @rule(
        shapes=st.lists(st.tuples(SIZES, st.integers(1, 50), PRIORITIES), min_size=1, max_size=6),
        hole=st.sampled_from([0, 0, 0, 7, 1_000]),
        step_ms=st.integers(0, 5),
        next_epoch=st.booleans(),
        sync=st.booleans(),
    )
    def append(
        self, shapes: list[tuple[int, int, int]], hole: int, step_ms: int, next_epoch: bool, sync: bool
    ) -> None:
        offset = self.log.end_offset + hole
        self.epoch += next_epoch
        new = []
        for size, count, priority in shapes:
            self.time_ms += step_ms
            body = (offset % 256).to_bytes(1, "big") * size
            time_ms, epoch = self.time_ms, self.epoch
            new.append(frame_at(offset, count=count, body=body, time_ms=time_ms, epoch=epoch, priority=priority))
            offset += count
        append(self.log, *new, sync=sync)
        self.frames += new
        assert self.log.end_offset == offset

    @precondition(lambda self: self.frames)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        kept = data.draw(st.integers(0, len(self.frames) - 1))
        self.log.truncate(self.frames[kept].header.base_offset)
        assert self.log.end_offset == self.frames[kept].header.base_offset
        del self.frames[kept:]

    @precondition(lambda self: self.frames)
    @rule(data=st.data())
    def drop_front(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from(self.frames)).header.base_offset
        start = self.log.drop_front(offset)
        assert start <= offset
        self.frames = [frame for frame in self.frames if frame.header.base_offset >= start]

    @rule()
    def roll(self) -> None:
        self.log.appender.roll()

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        end, start = self.log.end_offset, self.log.start_offset
        if clean:
            close(self.log)
        else:
            abandon(self.log)
        self.log = open_log(self.directory, max_open=2)
        assert self.log.start_offset == start
        assert self.log.end_offset == end if clean else self.log.end_offset <= end
        assert not self.log.view.damage

    @rule(data=st.data(), tail=st.sampled_from(["cut", "zeros", "garbage"]))
    def crash_with_torn_tail(self, data: st.DataObject, tail: str) -> None:
        abandon(self.log)
        paths = segment_files(self.directory)
        end = self.log.end_offset
        if paths and tail == "cut":
            base, size = int(paths[-1].stem), paths[-1].stat().st_size
            state = ReservedFile(self.directory / "reserved", Files(), Directories(self.directory, Files())).load()
            is_known = state is not None and state.segment_base == base
            cut = data.draw(st.integers(state.segment_size if is_known else 0, size))
            with paths[-1].open("r+b") as file:
                file.truncate(cut)
            self._lose_behind(base, cut)
        elif paths:
            junk = bytes(data.draw(st.integers(1, 5_000))) if tail == "zeros" else data.draw(st.binary(max_size=200))
            with paths[-1].open("ab") as file:
                file.write(junk)
        self.log = open_log(self.directory, max_open=2)
        last = self.frames[-1].header.next_offset if self.frames else 0
        assert self.log.end_offset >= last
        assert tail != "garbage" or self.log.end_offset <= end + (1 << 20)

    def _lose_behind(self, base: int, size: int) -> None:
        position = 0
        kept = [frame for frame in self.frames if frame.header.base_offset < base]
        for frame in self.frames[len(kept) :]:
            position += frame.header.frame_bytes
            if position > size:
                break
            kept.append(frame)
        self.frames = kept

    @rule(data=st.data())
    def damage_index(self, data: st.DataObject) -> None:
        """A flipped or lost index costs nothing but time."""
        paths = sorted(self.directory.glob("*.index"))
        if not paths:
            return
        abandon(self.log)
        path = data.draw(st.sampled_from(paths))
        content = bytearray(path.read_bytes())
        if content and data.draw(st.booleans()):
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            path.write_bytes(content)
        else:
            path.unlink()
        self.log = open_log(self.directory, max_open=2)

    @rule(share=st.floats(0, 1), max_bytes=st.sampled_from([1, 500, 5_000, 10**9]))
    def read(self, share: float, max_bytes: int) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        offset = start + int((end - start) * share)
        expected = [frame_bytes(frame) for frame in self.frames if frame.header.next_offset > offset]
        assert read_all(self.log, offset, max_bytes=max_bytes) == expected

    @rule(share=st.floats(0, 1), priorities=st.integers(0, 31))
    def find_priority(self, share: float, priorities: int) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        offset = start + int((end - start) * share)
        wanted = [frame.header for frame in self.frames if priorities >> frame.header.priority & 1]
        expected = next((header.base_offset for header in wanted if header.next_offset > offset), None)
        assert self.log.priorities.find_priority(offset, priorities) == expected
        assert not self.log.priorities.knows_of_none(offset, priorities) or expected is None
        assert not self.log.priorities.has_priority_hot(offset, priorities) or expected == offset

    @rule(share=st.floats(0, 1))
    def count_by_priority(self, share: float) -> None:
        start, end = self.log.start_offset, self.log.end_offset
        offset = start + int((end - start) * share)
        counts = [0] * 5
        for header in (frame.header for frame in self.frames):
            counts[header.priority] += max(0, header.next_offset - max(offset, header.base_offset))
        assert self.log.priorities.count_by_priority(offset) == counts

    @rule(delta=st.integers(-3, 50))
    def find_time(self, delta: int) -> None:
        time_ms = self.time_ms - delta
        at = [frame.header.base_offset for frame in self.frames if frame.header.append_time_ms >= time_ms]
        assert self.log.view.offset_for_time(time_ms) == (at[0] if at else self.log.end_offset)

    @rule(back=st.integers(0, 4))
    def find_epoch(self, back: int) -> None:
        epoch = self.epoch - back
        below = [frame.header.next_offset for frame in self.frames if frame.header.leader_epoch <= epoch]
        assert end_of_epoch(self.log, epoch) == (below[-1] if below else self.log.start_offset)

    @invariant()
    def sizes_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.view.size_bytes == sum(frame.header.frame_bytes for frame in self.frames)
        assert len(self.log.files.open_files) <= 2
        with pytest.raises(OffsetOutOfRange):
            self.log.view.read(self.log.end_offset + 1, max_bytes=1)


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(max_examples=60, stateful_step_count=25)
