"""Passes of compaction over random logs, against a model that looks at one message at a time."""

import asyncio
from typing import NamedTuple

from hypothesis import example, given, settings
from hypothesis import strategies as st

from quiver.log.compaction.progress import Pass, Progress
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import AbortedRange, LogOptions
from unit.log.keyed import DAY_MS, Row, everything, keyed_frame, messages, stored_frames

KEYS = st.sampled_from([None, b"a", b"b", b"c", b"d", b"", b"long" * 80])
VALUES = st.none() | st.binary(max_size=5)
ROWS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)


class Frame(NamedTuple):
    rows: list[Row]
    producer: int = -1
    compression: str = "none"


class Marker(NamedTuple):
    producer: int
    commit: bool


class Roll(NamedTuple):
    pass


class Compact(NamedTuple):
    later_ms: int


STEPS = st.lists(
    st.one_of(
        st.builds(Frame, ROWS, st.just(-1), st.sampled_from(["none", "lz4"])),
        st.builds(Frame, ROWS, st.integers(1, 2), st.just("none")),
        st.builds(Marker, st.integers(1, 2), st.booleans()),
        st.builds(Roll),
        st.builds(Compact, st.sampled_from([0, 1_000, DAY_MS])),
    ),
    max_size=30,
)


class Model:
    """What is in the log: (offset, key, value, producer, is_marker), and what is known of transactions."""

    def __init__(self) -> None:
        self.stored: list[tuple[int, bytes | None, bytes | None, int, bool]] = []
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedRange] = []
        self.end = 0
        self.closed_to = 0
        self.now_ms = 10_000
        self.progress = Progress()

    def append(self, rows: list[Row], producer: int, is_marker: bool = False) -> None:
        for key, value in rows:
            self.stored.append((self.end, key, value, producer, is_marker))
            self.end += 1

    def compact(self, last_stable: int, bounds: list[int]) -> None:
        end = max((bound for bound in bounds if bound <= last_stable), default=0)
        if not end:
            return
        below = self.progress.tombstones_below(self.now_ms, DAY_MS)
        counting = [each for each in self.stored if each[0] < end and not each[4] and not self._is_aborted(each)]
        last = {key: offset for offset, key, _, _, _ in counting}
        kept = {
            offset
            for offset, key, value, _, _ in counting
            if key is None or (last[key] == offset and not (value is None and offset < below))
        }
        kept |= self._markers(end)
        tombstones = sum(1 for each in counting if each[0] in kept and each[2] is None and each[1] is not None)
        self.stored = [each for each in self.stored if each[0] >= end or each[0] in kept]
        self.progress = self.progress.after(Pass(end, self.now_ms), tombstones=tombstones, retention_ms=DAY_MS)

    def _markers(self, end: int) -> set[int]:
        has_data: set[int] = set()
        kept = set()
        for offset, _, _, producer, is_marker in self.stored:
            if is_marker and offset < end:
                if producer in has_data or any(each.marker_offset == offset for each in self.aborted):
                    kept.add(offset)
                has_data.discard(producer)
            elif producer >= 0:
                has_data.add(producer)
        return kept

    def _is_aborted(self, each: tuple[int, bytes | None, bytes | None, int, bool]) -> bool:
        return any(a.producer_id == each[3] and a.first_offset <= each[0] < a.marker_offset for a in self.aborted)


A, B = [(b"a", b"1")], [(b"b", b"1")]


@example([Frame(A, 1), Marker(1, True), Roll(), Frame(A), Roll(), Compact(0), Compact(0)])
@example([Frame(A, 1), Roll(), Frame(B, 2), Marker(1, True), Compact(0), Marker(2, True), Roll(), Compact(0)])
@example([Frame([(b"a", None)], 1), Marker(1, True), Frame(B, 1), Marker(1, False)])
@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_passes_against_the_model(steps: list[object]) -> None:
    asyncio.run(run(steps))


async def run(steps: list[object]) -> None:
    log = await MemoryStorage().open_log("test/0", LogOptions(segment_bytes=2_000))
    model = Model()
    for step in [*steps, Roll(), Compact(0), Compact(DAY_MS), Compact(0)]:
        match step:
            case Frame(rows, producer, compression):
                if producer >= 0:
                    model.open.setdefault(producer, model.end)
                frame = keyed_frame(
                    model.end, rows, producer_id=producer, transactional=producer >= 0, compression=compression
                )
                await log.append([frame])
                model.append(rows, producer)
            case Marker(producer, commit) if producer in model.open:
                first = model.open.pop(producer)
                if not commit:
                    model.aborted.append(AbortedRange(producer, first, model.end))
                await log.append(
                    [keyed_frame(model.end, [(None, b"")], producer_id=producer, transactional=True, control=True)]
                )
                model.append([(None, b"")], producer, is_marker=True)
            case Roll():
                await log.roll()
            case Compact(later_ms):
                model.now_ms += later_ms
                last_stable = min([model.end, *model.open.values()])
                bounds = [segment.base_offset for segment in log._frames.segments[1:]]
                aborted = tuple(each for each in model.aborted if each.first_offset < last_stable)
                before = len([each for each in model.stored if not each[4]])
                done = await log.compact(
                    everything(log, end_offset=last_stable, now_ms=model.now_ms, aborted=aborted)
                )
                model.compact(last_stable, bounds)
                assert done.records_before == before
                assert done.records_after == len([each for each in model.stored if not each[4]])
        await check(log, model)


async def check(log: object, model: Model) -> None:
    found = []
    for header, frame in await stored_frames(log):  # type: ignore[arg-type]
        for message in messages(frame):
            found.append((message.offset, message.key, message.value, header.producer_id, header.is_control))
            assert message.timestamp_ms == 1_000 + message.offset
    assert found == model.stored
    assert log.end_offset == model.end  # type: ignore[attr-defined]
    assert log.start_offset == 0  # type: ignore[attr-defined]
