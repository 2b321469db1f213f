"""Every single file operation of a busy log fails once, in every way; afterwards the log is as promised."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from quiver.log.segment_log import SegmentLog
from quiver.model.errors import DiskFull, PartitionOffline
from quiver.records.header import FrameHeader, StampedFrame, read_stamped_header
from quiver.testing.files import FailingFiles, FaultKind, Killed
from unit.log.frames import frame_at, frame_bytes
from unit.log.logs import abandon, append, end_of_epoch, open_log, read_all


class Story:
    """Things a log does, and what it has promised so far."""

    def __init__(self, directory: Path, files: FailingFiles) -> None:
        self.directory = directory
        self.files = files
        self.acked: list[StampedFrame] = []
        self.unsure: list[StampedFrame] = []
        self.dropped_below = 0
        self.truncating_to: int | None = None
        self.snapshots: dict[int, bytes] = {}
        self.refusals: list[Exception] = []
        self.epoch = 1

    def run(self) -> None:
        self.log = open_log(self.directory, files=self.files, max_open=2)
        for step in self._steps():
            try:
                step()
            except (DiskFull, PartitionOffline, OSError) as error:
                self.refusals.append(error)

    def _steps(self) -> Iterator[Callable[[], object]]:
        for turn in range(3):
            yield lambda: self._append(3, 900)
            yield lambda: self._begin_epoch()
            yield lambda: self._append(1, 6_000)
            yield lambda: self._append(6, 5_000)  # over several segments
            yield lambda: self._snapshot()
            yield lambda: self.log.appender.roll()
            yield lambda: self._append(2, 100)
            yield lambda: self._truncate()
            yield lambda: self._append(2, 300)
            if turn:
                yield lambda: self._retain()

    def _begin_epoch(self) -> None:
        self.epoch += 2

    def _append(self, count: int, size: int) -> None:
        if self.log.files.failure is not None:
            return
        offset = self.log.end_offset
        frames = [
            frame_at(offset + 5 * n, count=5, body=bytes([n + 1]) * size, epoch=self.epoch) for n in range(count)
        ]
        self.unsure = frames
        try:
            append(self.log, *frames)
        except DiskFull:
            self.unsure = []
            raise
        self.acked += frames
        self.unsure = []

    def _snapshot(self) -> None:
        offset = self.log.end_offset
        self.snapshots[offset] = b"state at %d" % offset
        self.log.save_snapshot(offset, self.snapshots[offset])

    def _truncate(self) -> None:
        if self.unsure or not self.acked:
            return
        self.truncating_to = self.acked[-1].header.base_offset
        self.log.truncate(self.truncating_to)
        self.acked.pop()
        self.truncating_to = None

    def _retain(self) -> None:
        if not self.acked:
            return
        offset = self.acked[len(self.acked) // 2].header.base_offset
        self.dropped_below = offset
        self.log.drop_front(offset)

    def check(self, log: SegmentLog) -> None:
        """All that was acknowledged is there, in order; what was not may be; nothing else is."""
        must = [frame for frame in self.acked if frame.header.base_offset >= self.dropped_below]
        if self.truncating_to is not None:
            must = [frame for frame in must if frame.header.base_offset < self.truncating_to]
        may = [frame_bytes(frame) for frame in [*self.acked, *self.unsure]]
        found = read_all(log)
        assert [frame for frame in may if frame in set(found)] == found
        assert {frame_bytes(frame) for frame in must} <= set(found)
        assert log.end_offset >= (must[-1].header.next_offset if must else 0)
        assert not log.view.damage
        snapshot = log.snapshots.newest(log.end_offset)
        assert snapshot is None or self.snapshots[snapshot[0]] == snapshot[1]
        self._check_epochs(log, [read_stamped_header(frame) for frame in found])

    def _check_epochs(self, log: SegmentLog, headers: list[FrameHeader]) -> None:
        for epoch in range(self.epoch + 1):
            below = [header.next_offset for header in headers if header.leader_epoch <= epoch]
            ends = {below[-1] if below else log.start_offset}
            if below and below[-1] <= self.dropped_below:
                # Some segments were removed and some could not be: either the end is still known, or nothing is.
                known = [frame.header for frame in self.acked if frame.header.leader_epoch <= epoch]
                ends |= {known[-1].next_offset, log.start_offset}
            assert end_of_epoch(log, epoch) in ends


def count_operations(directory: Path) -> int:
    files = FailingFiles()
    story = Story(directory, files)
    story.run()
    assert not story.refusals
    story.check(story.log)
    assert {"pwritev", "fdatasync", "create", "remove", "rename", "truncate", "sync_directory"} <= set(
        files.operations
    )
    return len(files.operations)


@pytest.mark.parametrize("kind", ["error", "no_space", "short_write", "kill"])
def test_every_operation_may_fail(tmp_path: Path, kind: FaultKind) -> None:
    for number in range(1, count_operations(tmp_path / "whole") + 1):
        directory = tmp_path / f"{kind}-{number}"
        story = Story(directory, FailingFiles(fail_at=number, kind=kind))
        try:
            story.run()
        except Killed:
            pass
        except OSError:
            assert not story.acked, "only opening may raise what the system says"
            continue
        else:
            story.check(story.log)
        if hasattr(story, "log"):
            abandon_dead(story.log)
        log = open_log(directory)
        story.check(log)
        append(log, frame_at(log.end_offset, time_ms=9_000, epoch=9))
        assert read_all(log)[-1] == frame_bytes(frame_at(log.end_offset - 1, time_ms=9_000, epoch=9))
        abandon(log)


def abandon_dead(log: SegmentLog) -> None:
    log.files.open_files.files = FailingFiles()
    abandon(log)


@pytest.mark.parametrize("kind", ["no_space", "short_write"])
def test_lack_of_space_in_an_append_is_no_lasting_harm(tmp_path: Path, kind: FaultKind) -> None:
    files = FailingFiles(kind=kind)
    log = open_log(tmp_path / "log", files=files)
    append(log, frame_at(0, body=bytes(100)))
    files.fail_at = len(files.operations) + 1
    with pytest.raises(DiskFull):
        append(log, frame_at(1, body=bytes(1000)), frame_at(2, body=bytes(1000)))
    assert (log.end_offset, log.files.failure) == (1, None)
    assert (tmp_path / "log" / f"{0:020d}.log").stat().st_size == log.view.size_bytes
    append(log, frame_at(1, body=b"again"))
    assert log.end_offset == 2


def test_a_failed_sync_is_final(tmp_path: Path) -> None:
    files = FailingFiles()
    log = open_log(tmp_path / "log", files=files)
    append(log, frame_at(0))
    files.fail_at = len(files.operations) + 2
    with pytest.raises(PartitionOffline):
        append(log, frame_at(1))
    syncs = files.operations.count("fdatasync")
    with pytest.raises(PartitionOffline):
        append(log, frame_at(1))
    with pytest.raises(PartitionOffline):
        log.files.sync()
    log.close(log.end_offset)
    assert files.operations.count("fdatasync") == syncs, "it is never tried again"
    assert log.end_offset == 1, "readers do not see what is not synced"


def test_a_write_that_cannot_be_undone_is_final(tmp_path: Path) -> None:
    files = FailingFiles(kind="short_write")
    log = open_log(tmp_path / "log", files=files)
    append(log, frame_at(0))
    files.fail_at = len(files.operations) + 1

    def no_truncate(fd: int, size: int) -> None:
        raise OSError(5, "input/output error")

    files.truncate = no_truncate  # type: ignore[method-assign]
    with pytest.raises(PartitionOffline, match="could not be undone"):
        append(log, frame_at(1))
    assert len(read_all(log)) == 1


@pytest.mark.parametrize("failed_sync", [1, 2, 3])
def test_a_failed_sync_leaves_no_new_segment_open(tmp_path: Path, failed_sync: int) -> None:
    """An append over three segments syncs the first two when it is done with them, and the last one at its end."""
    files = FailingFiles()
    log = open_log(tmp_path / "log", files=files)
    append(log, frame_at(0))
    syncs = 0
    sync = files.fdatasync

    def fail_one(fd: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == failed_sync:
            raise OSError(5, "input/output error")
        sync(fd)

    files.fdatasync = fail_one  # type: ignore[method-assign]
    with pytest.raises(PartitionOffline):
        append(log, *[frame_at(offset, body=bytes(12_000)) for offset in (1, 2, 3)])
    assert syncs == failed_sync
    assert len(log.view.segments) == 1, "readers do not see what is not synced"
    log.close(log.end_offset)
    assert len(log.files.open_files) == 0
