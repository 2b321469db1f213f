"""Browse: messages one by one, for people and small clients."""

import asyncio
from collections.abc import Callable
from itertools import compress
from typing import NamedTuple

from quiver.messages.stored_slice import StoredSlice, read_slice
from quiver.model.errors import CorruptData, InvalidFrame, PartitionNotFound
from quiver.model.limits import MIB, PAGE_BYTES
from quiver.model.message import StoredMessage
from quiver.model.priority import Priority
from quiver.model.topic import Topic
from quiver.partition.pending import message_bytes
from quiver.records.expiry import past_rows
from quiver.records.read import OpenFrame, open_frame, split_frames
from quiver.system.clock import Clock
from quiver.topics.partitions import Partitions

_READ_BYTES = MIB


def message_size(message: StoredMessage) -> int:
    return message_bytes(message.value, message.key, message.headers)


class MessagePage(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    """Where the next page begins."""
    expired_count: int = 0
    """Messages that were left out because their time to live was over."""


class BrowseRequest(NamedTuple):
    offset: int | None = None
    """The first offset; one below the earliest means the earliest."""
    limit: int = 100
    """The largest number of messages."""
    from_time_ms: int | None = None
    to_time_ms: int | None = None
    read_committed: bool = True
    include_expired: bool = False
    """Whether to show messages past their time to live. They count as read bytes even if they are not shown."""
    max_bytes: int = PAGE_BYTES
    """The approximate size of the page."""
    hold: Callable[[int], None] | None = None
    """Called with the bytes that the page takes; may refuse them."""


class Browse:
    def __init__(self, partitions: Partitions, *, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock

    async def read(self, topic: Topic, number: int, request: BrowseRequest) -> MessagePage:
        """A page of messages of one partition."""
        count = topic.config.partitions
        if not 0 <= number < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=number)
        partition = self._partitions.get(topic.id, number)
        committed = partition.committed
        end = committed.last_stable if request.read_committed else committed.high_watermark
        position = max(partition.log.start_offset, request.offset or 0)
        if request.from_time_ms is not None:
            position = max(position, min(await partition.log.offset_for_time(request.from_time_ms), end))
        expires = None if request.include_expired else _Expires(self._clock.now_ms(), topic.config.ttl_ms)
        messages: list[StoredMessage] = []
        size = expired_count = 0
        while len(messages) < request.limit and size < request.max_bytes and position < end:
            stored = await read_slice(
                partition,
                position,
                max_bytes=min(_READ_BYTES, request.max_bytes),
                end_offset=end,
                read_committed=request.read_committed,
            )
            if stored is None:
                position = max(position, partition.log.start_offset)
                break
            wanted = _Wanted(number, request.limit - len(messages), request.to_time_ms, expires)
            found = await asyncio.to_thread(_decode, stored, wanted)
            messages += found.messages
            more = sum(map(message_size, found.messages))
            if request.hold is not None:
                request.hold(more)
            size += more + (len(stored.data) if found.expired_count else 0)
            expired_count += found.expired_count
            position = found.next_offset
            if found.is_last:
                break
        partition.traffic.browsed_messages += len(messages)
        partition.traffic.browsed_bytes += size
        return MessagePage(messages, position, expired_count)


class _Found(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    is_last: bool
    expired_count: int


class _Expires(NamedTuple):
    now_ms: int
    ttl_ms: int | None


class _Wanted(NamedTuple):
    partition: int
    limit: int
    to_time_ms: int | None
    expires: _Expires | None


def _decode(stored: StoredSlice, wanted: _Wanted) -> _Found:
    messages: list[StoredMessage] = []
    expired_count, offset = 0, stored.position
    for position, header in split_frames(stored.data):
        if wanted.to_time_ms is not None and header.append_time_ms > wanted.to_time_ms:
            return _Found(messages, offset, True, expired_count)
        if header.base_offset in stored.hidden:
            offset = max(offset, header.next_offset)
            continue
        try:
            frame = open_frame(stored.data, position)
        except InvalidFrame as error:
            if messages:
                break
            raise CorruptData(
                where=f"partition {wanted.partition} at offset {header.base_offset}",
                problem=str(error),
                next_offset=header.next_offset,
            ) from error
        found, expired = _frame_messages(frame, offset, wanted._replace(limit=wanted.limit - len(messages)))
        messages += found
        expired_count += expired
        offset = max(offset, found[-1].offset + 1 if found else header.next_offset)
        if len(messages) >= wanted.limit:
            return _Found(messages, offset, True, expired_count)
        offset = max(offset, header.next_offset)
    return _Found(messages, offset, False, expired_count)


def _frame_messages(frame: OpenFrame, offset: int, wanted: _Wanted) -> tuple[list[StoredMessage], int]:
    """Messages from an offset on, and how many before the last of them were left out."""
    header, limit = frame.header, wanted.limit
    if header.is_control:
        return [], 0
    past = None if wanted.expires is None else past_rows(frame, *wanted.expires)
    columns = zip(frame.offsets(), frame.timestamps(), frame.keys(), frame.values(), frame.headers(), strict=True)
    rows = list(columns) if past is None else list(compress(columns, (~past).tolist()))
    if offset > header.base_offset:
        rows = [row for row in rows if row[0] >= offset]
    stop = rows[limit - 1][0] if len(rows) >= limit else header.next_offset
    expired = () if past is None else compress(frame.offsets(), past.tolist())
    priority = Priority(header.priority)
    messages = [
        StoredMessage(
            partition=wanted.partition,
            offset=at,
            timestamp_ms=timestamp_ms,
            append_time_ms=header.append_time_ms,
            key=key,
            value=value,
            headers=headers,
            priority=priority,
        )
        for at, timestamp_ms, key, value, headers in rows[:limit]
    ]
    return messages, sum(offset <= at < stop for at in expired)
