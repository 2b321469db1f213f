"""Stored messages with everything that moves with them: read in slices, decoded in a thread."""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from quiver.messages.stored_slice import StoredSlice, read_slice
from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import MIB
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.partition.partition import Partition
from quiver.records.columns import EXPIRES_AT, HEADERS, ID, KEY, OFFSET_DELTA, TIMESTAMP, VALUE, Column
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame, open_frame, split_frames

logger = logging.getLogger(__name__)
T = TypeVar("T")


class StoredRow(NamedTuple):
    offset: int
    append_time_ms: int
    schema_id: int
    message: NewMessage

    @property
    def size(self) -> int:
        """Approximately what it takes in memory and in a frame."""
        message = self.message
        size = len(message.value or b"") + len(message.key or b"") + 64
        return size + sum(len(name) + len(value) + 8 for name, value in (message.headers or {}).items())


async def read_rows(
    partition: Partition,
    start: int,
    end: int,
    choose: Callable[[StoredRow], T | None],
    *,
    slice_bytes: int = MIB,
) -> AsyncIterator[list[T]]:
    """The results of `choose` for the messages from `start` up to `end`, in slices, in order; None leaves one out.

    `choose` runs in a thread. Messages that retention has removed are left out, and damaged frames are skipped.
    """
    position, end = max(start, partition.log.start_offset), min(end, partition.committed.last_stable)
    while position < end:
        try:
            stored = await read_slice(partition, position, max_bytes=slice_bytes)
        except CorruptData as damage:
            logger.error("%s", damage)
            position = max(position + 1, int(damage.details["next_offset"]))
            continue
        if stored is None:
            return
        decode = partial(_decode, stored, end, choose, partition.name)
        chosen, position = await asyncio.to_thread(decode)
        if chosen:
            yield chosen


def _decode(stored: StoredSlice, end: int, choose: Callable[[StoredRow], T | None], name: str) -> tuple[list[T], int]:
    """What is chosen of a slice, and where the next one begins."""
    chosen: list[T] = []
    position = stored.position
    try:
        for place, header in split_frames(stored.data):
            if header.base_offset >= end:
                return chosen, end
            frame = None if header.base_offset in stored.hidden else _opened(stored, place, header, name)
            if frame is not None:
                rows = frame_rows(frame, stored.position, end)
                chosen += [found for row in rows if (found := choose(row)) is not None]
            position = max(position, header.next_offset)
    except InvalidFrame:
        # A damaged header after good frames begins the next slice; then the log tells where reading can continue.
        if position == stored.position:
            raise
    return chosen, position


def _opened(stored: StoredSlice, place: int, header: FrameHeader, name: str) -> OpenFrame | None:
    """None if it has no messages that are wanted, or is damaged."""
    if header.is_control or header.next_offset <= stored.position:
        return None
    try:
        return open_frame(stored.data, place)
    except InvalidFrame as error:
        logger.error("the frame of %s at offset %d is damaged: %s", name, header.base_offset, error)
        return None


def frame_rows(frame: OpenFrame, start: int, end: int) -> list[StoredRow]:
    """The messages of a frame from `start` up to `end`. The cost depends on these, not on the size of the frame."""
    header = frame.header
    first, count = _place(frame, start, end)
    offsets = _offsets(frame, first, count)
    keys, values, ids = (_cut(frame, column, first, count) for column in (KEY, VALUE, ID))
    times, expiries = (_cut(frame, column, first, count) for column in (TIMESTAMP, EXPIRES_AT))
    headers = _cut(frame, HEADERS, first, count)
    priority = Priority(header.priority)
    return [
        StoredRow(
            offsets[i],
            header.append_time_ms,
            header.schema_id,
            NewMessage(
                value=values[i],
                key=keys[i],
                headers=dict(headers[i]) if headers[i] else None,
                timestamp_ms=header.min_timestamp_ms if times[i] is None else times[i],
                priority=priority,
                expires_at_ms=expiries[i],
                id=ids[i],
            ),
        )
        for i in range(count)
    ]


def _place(frame: OpenFrame, start: int, end: int) -> tuple[int, int]:
    """The first row within the offsets, and how many there are."""
    base, count = frame.header.base_offset, frame.header.record_count
    deltas = frame.column(OFFSET_DELTA)
    if deltas is None:
        first, last = start - base, end - base
    else:
        held = deltas.to_pylist()
        first, last = bisect_left(held, start - base), bisect_left(held, end - base)
    first = min(max(first, 0), count)
    return first, max(0, min(last, count) - first)


def _offsets(frame: OpenFrame, first: int, count: int) -> Sequence[int]:
    base, deltas = frame.header.base_offset, frame.column(OFFSET_DELTA)
    if deltas is None:
        return range(base + first, base + first + count)
    return [base + delta for delta in deltas.slice(first, count).to_pylist()]


def _cut(frame: OpenFrame, column: Column, first: int, count: int) -> list:  # type: ignore[type-arg]
    found = frame.column(column)
    return [None] * count if found is None else found.slice(first, count).to_pylist()
