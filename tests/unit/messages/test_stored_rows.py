"""Stored messages as they are read for a move."""

import pyarrow as pa
import pytest

from quiver.messages.stored_rows import StoredRow, frame_rows, read_rows
from quiver.model.errors import CorruptData
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.topic import TopicConfig
from quiver.outbox.append import append_again
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.build import build_frame
from quiver.records.columns import OFFSET_DELTA, VALUE, layout_for
from quiver.records.header import unpack_header
from quiver.records.read import OpenFrame
from quiver.storage.memory.storage import MemoryStorage
from quiver.storage.port import FrameSlice
from quiver.system.clock import SystemClock


async def open_partition() -> Partition:
    log = await MemoryStorage().open_log("topics/1/0", log_options(TopicConfig()))
    return Partition("t-0", log, PartitionSettings(TopicConfig(), Limits()), leader_epoch=1, clock=SystemClock())


async def rows_of(partition: Partition, start: int, end: int, slice_bytes: int = 1) -> list[StoredRow]:
    slices = read_rows(partition, start, end, lambda row: row, slice_bytes=slice_bytes)
    return [row async for rows in slices for row in rows]


async def test_rows_have_all_that_was_stored() -> None:
    partition = await open_partition()
    full = NewMessage(
        value=b"v",
        key=b"k",
        headers={"a": b"1", "b": b""},
        timestamp_ms=7,
        priority=Priority.HIGH,
        expires_at_ms=99,
        id=b"i",
    )
    plain = NewMessage(value=None, timestamp_ms=8, priority=Priority.HIGH)
    appended = await append_again(partition, messages=[plain, full, plain], schema_id=3)
    assert await rows_of(partition, 0, 9) == [
        StoredRow(offset, appended.append_time_ms, 3, message) for offset, message in enumerate([plain, full, plain])
    ]


@pytest.mark.parametrize("slice_bytes", [1, 300, 1 << 20])
async def test_any_range_over_frames(slice_bytes: int) -> None:
    partition = await open_partition()
    for base in range(0, 30, 3):
        messages = [NewMessage(value=b"%d" % (base + n), timestamp_ms=1) for n in range(3)]
        await append_again(partition, messages=messages)
    for start in range(0, 31, 4):
        for end in range(start, 33, 5):
            rows = await rows_of(partition, start, end, slice_bytes)
            assert [row.offset for row in rows] == list(range(start, min(end, 30)))
            assert [row.message.value for row in rows] == [b"%d" % offset for offset in range(start, min(end, 30))]


async def test_what_is_not_chosen_is_left_out() -> None:
    partition = await open_partition()
    await append_again(partition, messages=[NewMessage(value=b"x", timestamp_ms=n) for n in range(6)])
    slices = read_rows(partition, 0, 6, lambda row: row.offset if row.offset % 2 else None)
    assert [offset async for offsets in slices for offset in offsets] == [1, 3, 5]


def test_offsets_of_a_frame_with_holes() -> None:
    """As compaction and cutting leave them."""
    header = unpack_header(build_frame([b"a", b"b", b"c"], timestamp_ms=1))._replace(
        base_offset=100, last_offset_delta=9, columns=OFFSET_DELTA.bit
    )
    arrays = {VALUE: pa.array([b"a", b"b", b"c"]), OFFSET_DELTA: pa.array([0, 4, 9], pa.int32())}
    layout = layout_for(OFFSET_DELTA.bit)
    batch = pa.RecordBatch.from_arrays([arrays[column] for column in layout.columns], schema=layout.schema)
    frame = OpenFrame(header, batch)
    for start in range(99, 112):
        for end in range(start, 112):
            expected = [offset for offset in (100, 104, 109) if start <= offset < end]
            assert [row.offset for row in frame_rows(frame, start, end)] == expected


class _Damaged:
    """A log whose bytes from one offset up to another cannot be read."""

    def __init__(self, partition: Partition, start: int, end: int) -> None:
        self._log, self._start, self._end = partition.log, start, end
        self.start_offset, self.readable_offset = partition.log.start_offset, partition.log.readable_offset

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        if self._start <= offset < self._end:
            raise CorruptData(where="here", problem="bits", next_offset=self._end)
        return await self._log.read(offset, max_bytes=max_bytes)


async def test_damage_is_stepped_over() -> None:
    partition = await open_partition()
    for n in range(5):
        await append_again(partition, messages=[NewMessage(value=b"%d" % n, timestamp_ms=1)])
    partition.log = _Damaged(partition, 2, 4)  # type: ignore[assignment]
    assert [row.offset for row in await rows_of(partition, 0, 5)] == [0, 1, 4]
