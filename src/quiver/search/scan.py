"""Looks through stored frames for messages that fit. Runs in a thread."""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from quiver.messages.stored_slice import StoredSlice
from quiver.model.errors import InvalidFrame
from quiver.model.message import StoredMessage
from quiver.model.priority import Priority
from quiver.partition.pending import message_bytes
from quiver.records.columns import HEADERS, KEY, TIMESTAMP, VALUE
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame, check_body, open_frame, split_frames
from quiver.search.frame_batch import FrameBatch, batches
from quiver.search.language.expression import Expression

RESULT_BYTES = 4 * 1024 * 1024
"""A scan returns no more messages than this, approximately."""


class Wanted(NamedTuple):
    where: Expression
    partition: int
    start: int
    end: int
    floor: int
    """Where a frame begins before `start`, a search from the newest back looks at all of it, down to here."""
    limit: int
    newest_first: bool
    now_ms: int
    ttl_ms: int | None
    include_expired: bool
    is_stopped: Callable[[], bool]
    """Asked after every few thousand messages; what was found until then is thrown away."""


class Scanned(NamedTuple):
    messages: list[StoredMessage]
    """In the order of the search."""
    start: int
    end: int
    """What was looked at. Less than the slice if it has more messages that fit than are wanted."""
    message_count: int
    """Messages that were looked at."""
    edge_time_ms: int | None
    """The append time of the frame where the search goes on; None if there was no frame."""


class _Hit(NamedTuple):
    frame: OpenFrame
    row: int
    offset: int


def scan(stored: StoredSlice, wanted: Wanted) -> Scanned | int:
    """Damaged frames and those of aborted transactions are skipped.

    Returns an offset if the slice ends there, before the end of what is wanted: a search that begins with the newest
    has to look at what comes after it first.
    """
    places = _whole_frames(stored)
    reached = places[-1][1].next_offset if places else wanted.start
    first = places[0][1].base_offset if places else wanted.end
    if wanted.newest_first and wanted.start < reached < wanted.end and first < wanted.end:
        return reached
    if wanted.newest_first:
        wanted = wanted._replace(start=max(wanted.floor, min(wanted.start, first)))
    hits: list[_Hit] = []
    looked_at = 0
    inside = [(position, header) for position, header in places if header.base_offset < wanted.end]
    for batch in batches(_opened(stored, inside, wanted)):
        looked_at += len(batch)
        found = _hits(batch, wanted)
        if found is None:
            break
        hits += found
    end = wanted.end if wanted.newest_first else min(wanted.end, max(reached, wanted.start))
    edge = None if not inside else inside[0 if wanted.newest_first else -1][1].append_time_ms
    return _cut(hits, wanted._replace(end=end), looked_at, edge)


def _whole_frames(stored: StoredSlice) -> list[tuple[int, FrameHeader]]:
    found: list[tuple[int, FrameHeader]] = []
    with contextlib.suppress(InvalidFrame):  # a damaged header: what comes after it is another slice
        found.extend(split_frames(stored.data))
    return found


def _opened(stored: StoredSlice, places: list[tuple[int, FrameHeader]], wanted: Wanted) -> Iterator[OpenFrame]:
    for position, header in places:
        if header.is_control or header.base_offset in stored.hidden or header.next_offset <= wanted.start:
            continue
        with contextlib.suppress(InvalidFrame):
            check_body(memoryview(stored.data)[position : position + header.frame_bytes], header)
            yield open_frame(stored.data, position, verify=False, header=header)


def _hits(batch: FrameBatch, wanted: Wanted) -> list[_Hit] | None:
    """None if the search was stopped."""
    offsets = batch.offsets
    past = None if wanted.include_expired else batch.past(wanted.now_ms, wanted.ttl_ms)
    hits: list[_Hit] = []
    for rows in wanted.where.select(batch.columns(wanted.partition)):
        if wanted.is_stopped():
            return None
        hits += [
            _Hit(*batch.place(row), offsets[row])
            for row in rows
            if wanted.start <= offsets[row] < wanted.end and (past is None or not past[row])
        ]
    return hits


def _cut(hits: list[_Hit], wanted: Wanted, looked_at: int, edge: int | None) -> Scanned:
    """The first hits in the order of the search: at most the limit, and about RESULT_BYTES."""
    if wanted.newest_first:
        hits.reverse()
    messages: list[StoredMessage] = []
    size, start, end = 0, wanted.start, wanted.end
    for hit in hits:
        if len(messages) >= wanted.limit or size >= RESULT_BYTES:
            last = messages[-1]
            start, end = (last.offset, end) if wanted.newest_first else (start, last.offset + 1)
            return Scanned(messages, start, end, looked_at, last.append_time_ms)
        messages.append(_message(hit, wanted.partition))
        size += stored_size(messages[-1])
    return Scanned(messages, start, end, looked_at, edge)


def stored_size(message: StoredMessage) -> int:
    return message_bytes(message.value, message.key, message.headers)


def _message(hit: _Hit, partition: int) -> StoredMessage:
    frame, row = hit.frame, hit.row
    header = frame.header

    def item(array: pa.Array | None) -> object:
        return None if array is None else array[row].as_py()

    times = frame.column(TIMESTAMP)
    return StoredMessage(
        partition=partition,
        offset=hit.offset,
        timestamp_ms=header.min_timestamp_ms if times is None else times[row].as_py(),
        append_time_ms=header.append_time_ms,
        key=item(frame.column(KEY)),  # type: ignore[arg-type]
        value=item(frame.column(VALUE)),  # type: ignore[arg-type]
        headers=dict(item(frame.column(HEADERS)) or ()),  # type: ignore[call-overload]
        priority=Priority(header.priority),
    )
