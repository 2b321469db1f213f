"""Transactions in one partition: what is open, what is stable, what was aborted; against a model and on real logs."""

import asyncio
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.model.errors import ProducerFenced, TransactionConflict
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Appended, Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.partition.transactions import Marker, TransactionsSnapshot, TransactionTable, build_marker
from quiver.records.build import build_frame
from quiver.records.header import FrameHeader, stamp, unpack_header
from quiver.records.read import split_frames
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.system.clock import SystemClock

PLAIN = 9


class Written(NamedTuple):
    """A frame of the model's log: of whom, what, and whether it is a marker."""

    producer: int
    offset: int
    end: int
    priority: int
    is_transactional: bool
    marker: bool | None


def header_of(written: Written) -> FrameHeader:
    if written.marker is not None:
        frame, _ = build_marker(written.producer, 0, Marker(written.marker, 1))
    else:
        frame = build_frame(
            [b"x"] * (written.end - written.offset),
            timestamp_ms=1,
            producer_id=written.producer,
            producer_epoch=0,
            base_sequence=0,
            priority=written.priority,
            transactional=written.is_transactional,
        )
    stamped = stamp(frame, unpack_header(frame), base_offset=written.offset, leader_epoch=1, append_time_ms=1)
    return stamped.header


class NaiveLog:
    """Looks through everything, every time."""

    def __init__(self) -> None:
        self.frames: list[Written] = []

    @property
    def end(self) -> int:
        return self.frames[-1].end if self.frames else 0

    def append(self, producer: int, count: int, priority: int, marker: bool | None) -> Written:
        end = self.end + (1 if marker is not None else count)
        level = 2 if marker is not None else priority
        written = Written(producer, self.end, end, level, producer != PLAIN, marker)
        self.frames.append(written)
        return written

    def fate(self, frame: Written) -> bool | None:
        """Whether a data frame counts; None while that is open."""
        if not frame.is_transactional:
            return True
        later = (each for each in self.frames if each.offset > frame.offset and each.producer == frame.producer)
        return next((each.marker for each in later if each.marker is not None), None)

    def data(self) -> list[Written]:
        return [frame for frame in self.frames if frame.marker is None]

    def stable(self) -> int | None:
        return min((frame.offset for frame in self.data() if self.fate(frame) is None), default=None)

    def aborted(self) -> list[tuple[int, int, int]]:
        found: dict[tuple[int, int], int] = {}
        for frame in self.data():
            if self.fate(frame) is False:
                marker = next(
                    each.offset
                    for each in self.frames
                    if each.offset > frame.offset and each.producer == frame.producer and each.marker is not None
                )
                found.setdefault((frame.producer, marker), frame.offset)
        return sorted(((p, first, marker) for (p, marker), first in found.items()), key=lambda each: each[1])


steps = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 3, PLAIN]),
        st.integers(1, 3),
        st.integers(0, 4),
        st.sampled_from([None, None, None, True, False]),
        st.booleans(),
    ),
    max_size=40,
)


def feed(table: TransactionTable, log: NaiveLog, script: list[tuple[int, int, int, bool | None, bool]]) -> None:
    """Markers come where something is open, as the partition sees to; some steps are taken back and repeated."""
    for producer, count, priority, marker, fails_first in script:
        if marker is not None and producer not in table.open:
            continue
        written = log.append(producer, count, priority, marker)
        for attempt in range(1 + fails_first):
            change = table.record(header_of(written), None if marker is None else Marker(marker, 1))
            if attempt < fails_first:
                table.take_back(change)


def check(table: TransactionTable, log: NaiveLog) -> None:
    assert table.first_open_offset() == log.stable()
    for frame in log.data():
        assert table.is_aborted(header_of(frame)) == (log.fate(frame) is False)
    visible = [frame.end for frame in log.data() if log.fate(frame)]
    assert table.visible_end == max(visible, default=0)


@given(steps, st.data())
@settings(max_examples=150)
def test_the_table_agrees_with_one_that_looks_through_everything(
    script: list[tuple[int, int, int, bool | None, bool]], data: st.DataObject
) -> None:
    table, log = TransactionTable(), NaiveLog()
    feed(table, log, script)
    check(table, log)
    start = data.draw(st.integers(0, log.end))
    end = data.draw(st.integers(start, log.end))
    expected = [each for each in log.aborted() if each[1] < end and each[2] >= start]
    assert [each[:3] for each in table.aborted_within(start, end)] == expected
    counts = [0] * 5
    for frame in log.data():
        for producer, first, marker in log.aborted():
            if frame.producer == producer and first <= frame.offset < marker and start <= marker < end:
                counts[frame.priority] += frame.end - frame.offset
    assert list(table.aborted_counts(start, end)) == counts


@given(steps, st.data())
@settings(max_examples=100)
def test_a_snapshot_and_a_shorter_log_change_nothing_that_is_left(
    script: list[tuple[int, int, int, bool | None, bool]], data: st.DataObject
) -> None:
    table, log = TransactionTable(), NaiveLog()
    feed(table, log, script)
    snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(table.snapshot()), type=TransactionsSnapshot)
    again = TransactionTable()
    again.restore(snapshot)
    check(again, log)
    floor = data.draw(st.integers(0, log.end))
    again.forget_below(floor)
    expected = [each for each in log.aborted() if each[2] >= floor]
    assert [each[:3] for each in again.aborted_within(floor, log.end)] == expected
    assert again.aborted_counts(floor, log.end) == table.aborted_counts(floor, log.end)


def test_the_aborted_ones_of_a_slice_are_never_too_few_and_not_very_many() -> None:
    table, log = TransactionTable(), NaiveLog()
    feed(table, log, [(7, 1, 2, None, False)])
    for _ in range(1000):
        feed(table, log, [(1, 1, 2, None, False), (1, 1, 2, False, False)])
    feed(table, log, [(7, 1, 2, False, False)])
    found = table.aborted_in_slice(0, log.end, 1000)
    assert (7, 0) in [each[:2] for each in found], "a long one that is aborted last reaches over all of them"
    assert 1000 // 88 <= len(found) <= 20
    assert len(table.aborted_in_slice(0, log.end, 10**9)) == 1001


# on a partition


async def open_partition(storage: MemoryStorage, config: TopicConfig | None = None) -> Partition:
    config = config or TopicConfig()
    log = await storage.open_log("topics/1/0", log_options(config))
    partition = Partition("t-0", log, PartitionSettings(config, Limits()), leader_epoch=1, clock=SystemClock())
    await partition.recover()
    return partition


def send(
    partition: Partition, *values: bytes, producer: int = 1, epoch: int = 0, sequence: int = 0
) -> "asyncio.Future[Appended]":
    frame = build_frame(
        list(values),
        timestamp_ms=1,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return partition.append(frame, unpack_header(frame))


async def visible(partition: Partition) -> list[int]:
    piece = await partition.log.read(
        partition.log.start_offset, max_bytes=10**9, end_offset=partition.committed.last_stable
    )
    if piece is None:
        return []
    found = [header for _, header in split_frames(await piece.read()) if partition.committed.is_visible(header)]
    return [offset for header in found for offset in range(header.base_offset, header.next_offset)]


async def test_a_marker_closes_it_once_and_late_frames_are_refused() -> None:
    partition = await open_partition(MemoryStorage())
    await send(partition, b"a", b"b")
    assert (partition.committed.last_stable, await visible(partition)) == (0, [])
    assert (await partition.append_marker(1, 0, commit=True)).base_offset == 2
    assert (partition.committed.last_stable, await visible(partition), partition.committed.visible_end) == (
        3,
        [0, 1],
        2,
    )
    again = await partition.append_marker(1, 0, commit=False)
    assert (again.base_offset, again.duplicate) == (-1, True)
    with pytest.raises(ProducerFenced):
        await send(partition, b"c", sequence=2)
    await send(partition, b"d", epoch=1)
    assert partition.committed.last_stable == 3
    await partition.close()


async def test_the_next_transaction_waits_for_the_end_of_the_one_before() -> None:
    partition = await open_partition(MemoryStorage())
    await send(partition, b"a")
    with pytest.raises(TransactionConflict):
        await send(partition, b"b", epoch=1)
    await partition.append_marker(1, 0, commit=False)
    await send(partition, b"b", epoch=1)
    assert partition.tables.transactions.open[1].first_offset == 2
    await partition.close()


async def test_a_late_marker_does_not_bring_an_old_epoch_back() -> None:
    partition = await open_partition(MemoryStorage())
    await send(partition, b"a")
    plain = build_frame([b"p"], timestamp_ms=1, producer_id=1, producer_epoch=5, base_sequence=0)
    await partition.append(plain, unpack_header(plain))
    await partition.append_marker(1, 0, commit=True)
    with pytest.raises(ProducerFenced):
        await send(partition, b"b", epoch=3)
    await partition.close()


@pytest.mark.parametrize("with_snapshot", [True, False])
async def test_it_is_all_there_after_a_restart(with_snapshot: bool) -> None:
    storage = MemoryStorage()
    partition = await open_partition(storage)
    await partition.append_message(NewMessage(value=b"plain"))
    await send(partition, b"aborted", producer=1)
    await partition.append_marker(1, 0, commit=False)
    await send(partition, b"committed", producer=2)
    await partition.append_marker(2, 0, commit=True)
    if with_snapshot:
        await partition.saved_state.save_now(roll=False)
    await send(partition, b"open", producer=3, epoch=4)
    await partition.drain()
    again = await open_partition(storage)
    assert (again.committed.last_stable, await visible(again), again.committed.visible_end) == (5, [0, 3], 4)
    assert {producer: each[:2] for producer, each in again.tables.transactions.open.items()} == {3: (4, 5)}
    await again.append_marker(3, 4, commit=True)
    assert await visible(again) == [0, 3, 5]
    await again.close()


async def test_a_marker_that_cannot_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = await open_partition(MemoryStorage())
    await send(partition, b"a")

    def fail(*_: object, **__: object) -> bool:
        raise OSError("no")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryLog, "append_at_once", fail)
        with pytest.raises(Exception, match="unexpected"):
            await partition.append_marker(1, 0, commit=False)
    assert partition.committed.last_stable == 0
    assert partition.tables.transactions.is_open(1, 0)
    await partition.append_marker(1, 0, commit=True)
    assert await visible(partition) == [0]
    await partition.close()


async def test_markers_are_not_counted_as_messages() -> None:
    partition = await open_partition(MemoryStorage())
    await send(partition, b"a", b"b")
    await partition.append_marker(1, 0, commit=True)
    assert sum(await partition.log.count_by_priority(0)) == 2
    await partition.close()
