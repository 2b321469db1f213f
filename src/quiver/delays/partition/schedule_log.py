"""The schedule log: frames of delayed messages, each with the time at which it is due."""

import asyncio
import contextlib
import logging
import sys
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange
from quiver.model.limits import KIB, MIB
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.partition.pending import message_bytes
from quiver.records.arrow_arrays import number_array, number_scalar, to_numbers
from quiver.records.columns import DELIVER_AT
from quiver.records.header import COLUMN_DELIVER_AT, NO_PRODUCER, FrameHeader
from quiver.records.read import OpenFrame, open_frame, split_frames
from quiver.storage.port import Log
from quiver.structures.ordered_pairs import Integers

logger = logging.getLogger(__name__)

FRAME_BYTES = 64 * KIB
"""The largest frame of several delayed messages, so that one can be read without reading many others."""
_SCAN_BYTES = 4 * MIB
_DENSE = 64
"""Messages that are closer together than this, on average, are read in long runs."""


class ScheduledRow(msgspec.Struct, frozen=True, gc=False):
    """A delayed message as it is in the schedule log.

    Not tracked by the garbage collector: there are tens of thousands, and nothing in them refers back to them.
    """

    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes] | None
    timestamp_ms: int
    deliver_at_ms: int | None
    expires_at_ms: int | None
    id: bytes | None
    priority: Priority
    schema_id: int
    scheduled_ms: int
    is_original: bool
    """Not a copy, which has no time."""
    transaction: int = NO_PRODUCER

    @property
    def size(self) -> int:
        return message_bytes(self.value, self.key, self.headers)

    def message(self, late_ms: int) -> NewMessage:
        """The message as it enters the topic, with its lateness."""
        return NewMessage(
            value=self.value,
            key=self.key,
            headers=self.headers,
            timestamp_ms=self.timestamp_ms,
            priority=self.priority,
            expires_at_ms=None if self.expires_at_ms is None else self.expires_at_ms + late_ms,
            id=self.id,
        )


class ScheduledFrame(NamedTuple):
    ids: Integers
    times_ms: Integers
    priority: int
    transaction: int = NO_PRODUCER
    """The producer of the transaction that it is part of."""


def due_times(frame: OpenFrame) -> Integers:
    """When each message of a frame is due; 0, which is immediately, if it does not say."""
    column = frame.column(DELIVER_AT)
    if column is None:
        return np.zeros(len(frame), np.int64)
    return to_numbers(column.fill_null(number_scalar(0)) if column.null_count else column)


def transaction_of(header: FrameHeader) -> int:
    """The producer of the transaction that a frame is part of; NO_PRODUCER if it is not part of one."""
    return header.producer_id if header.is_transactional else NO_PRODUCER


async def scan(log: Log, offset: int) -> AsyncIterator[ScheduledFrame]:
    """Every message from an offset on. Copies are left out, and damaged frames are skipped.

    Consecutive frames are joined if they are alike and no transaction begins between them.
    """
    offset, end = max(offset, log.start_offset), log.end_offset
    while offset < end:
        data, offset = await _read(log, offset, _SCAN_BYTES, end)
        gathered: list[ScheduledFrame] = []
        for position, header in _frames(data):
            offset = header.next_offset
            if not header.columns & COLUMN_DELIVER_AT:
                continue
            try:
                frame = open_frame(data, position)
            except InvalidFrame as error:
                logger.error("delayed messages %d to %d are lost: %s", header.base_offset, header.last_offset, error)
                continue
            ids = np.arange(header.base_offset, header.next_offset)
            found = ScheduledFrame(ids, due_times(frame), header.priority, transaction_of(header))
            if gathered and not _are_alike(gathered[0], found):
                yield _as_one(gathered)
                gathered = []
            gathered.append(found)
        if gathered:
            yield _as_one(gathered)


def _are_alike(one: ScheduledFrame, other: ScheduledFrame) -> bool:
    return one.transaction == other.transaction == NO_PRODUCER and one.priority == other.priority


def _as_one(frames: list[ScheduledFrame]) -> ScheduledFrame:
    if len(frames) == 1:
        return frames[0]
    ids, times_ms = (np.concatenate(column) for column in ([f.ids for f in frames], [f.times_ms for f in frames]))
    return frames[0]._replace(ids=ids, times_ms=times_ms)


async def read_rows(
    log: Log, places: Sequence[int], max_bytes: int = sys.maxsize
) -> tuple[dict[int, ScheduledRow], int]:
    """The messages at some ascending offsets, by offset; and the offset at which the size limit was reached.

    What is missing or damaged is left out. At least the messages of one frame are returned.
    """
    found: dict[int, ScheduledRow] = {}
    size = 0
    is_dense = len(places) > 1 and (places[-1] - places[0]) < _DENSE * len(places)
    at = 0
    while at < len(places):
        data, following = await _read(log, places[at], MIB if is_dense else FRAME_BYTES, log.end_offset)
        for position, header in _frames(data):
            following = header.next_offset
            at = bisect_left(places, header.base_offset, at)
            end = bisect_left(places, following, at)
            if at < end:
                size += _open_rows(data, position, header, places[at:end], found)
            at = end
            if at == len(places) or size >= max_bytes:
                return found, following
        at = bisect_left(places, following, at)
        await asyncio.sleep(0)
    return found, sys.maxsize


async def _read(log: Log, offset: int, max_bytes: int, end: int) -> tuple[bytes | memoryview, int]:
    """Stored frames from an offset on, or nothing; and where to continue if it is nothing."""
    try:
        part = await log.read(offset, max_bytes=max_bytes, end_offset=end)
    except CorruptData as damage:
        return b"", max(offset + 1, int(damage.details["next_offset"]))
    except OffsetOutOfRange:
        return b"", max(offset + 1, log.start_offset)
    if part is None:
        return b"", max(offset + 1, end)
    try:
        return await part.read(), offset + 1
    finally:
        part.release()


def _frames(data: bytes | memoryview) -> Iterator[tuple[int, FrameHeader]]:
    """Up to the first damaged header: the next read begins there, and the log tells where to continue."""
    with contextlib.suppress(InvalidFrame):
        yield from split_frames(data)


def _open_rows(
    data: bytes | memoryview,
    position: int,
    header: FrameHeader,
    places: Sequence[int],
    found: dict[int, ScheduledRow],
) -> int:
    """Adds the messages of a frame at some offsets; returns their size in bytes."""
    try:
        frame = open_frame(data, position)
    except InvalidFrame as error:
        logger.error("delayed messages %d to %d are lost: %s", places[0], places[-1], error)
        return 0
    if len(places) < header.record_count:
        wanted = number_array(np.array(places) - header.base_offset)
        frame = OpenFrame(header._replace(record_count=len(places)), frame.batch.take(wanted))
    columns = zip(
        frame.values(),
        frame.keys(),
        [headers or None for headers in frame.headers()],
        frame.timestamps(),
        frame.deliver_at_ms(),
        frame.expires_at_ms(),
        frame.ids(),
        strict=True,
    )
    is_original = bool(header.columns & COLUMN_DELIVER_AT)
    common = (Priority(header.priority), header.schema_id, header.append_time_ms, is_original, transaction_of(header))
    rows = [
        ScheduledRow(value, key, headers, timestamp_ms, deliver_at_ms, expires_at_ms, id, *common)
        for value, key, headers, timestamp_ms, deliver_at_ms, expires_at_ms, id in columns
    ]
    found.update(zip(places, rows, strict=True))
    return sum(row.size for row in rows)
