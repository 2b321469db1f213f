"""Browse: messages one by one, for people and small clients."""

import asyncio
from collections.abc import Callable
from itertools import compress
from typing import NamedTuple, TypedDict

from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange, PartitionNotFound
from quiver.model.limits import MIB
from quiver.model.message import StoredMessage
from quiver.model.priority import Priority
from quiver.model.topic import Topic
from quiver.partition.message_batch import message_bytes
from quiver.records.expiry import past_rows
from quiver.records.read import open_frame, split_frames
from quiver.system.clock import Clock
from quiver.topics.partitions import Partitions

_READ_BYTES = MIB
PAGE_BYTES = 16 * MIB


def message_size(message: StoredMessage) -> int:
    return message_bytes(message.value, message.key, message.headers)


class MessagePage(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    """Where the next page begins."""
    expired_count: int = 0
    """Messages that were left out because their time to live was over."""


class ReadOptions(TypedDict, total=False):
    """Of `Browse.read`."""

    offset: int | None
    limit: int
    from_time_ms: int | None
    to_time_ms: int | None
    read_committed: bool
    include_expired: bool
    max_bytes: int
    hold: Callable[[int], None] | None


class Browse:
    def __init__(self, partitions: Partitions, *, clock: Clock) -> None:
        self._partitions = partitions
        self._clock = clock

    async def read(
        self,
        topic: Topic,
        number: int,
        *,
        offset: int | None = None,
        limit: int = 100,
        from_time_ms: int | None = None,
        to_time_ms: int | None = None,
        read_committed: bool = True,
        include_expired: bool = False,
        max_bytes: int = PAGE_BYTES,
        hold: Callable[[int], None] | None = None,
    ) -> MessagePage:
        """Up to `limit` messages and about `max_bytes`; below the earliest offset it begins at the earliest.

        What is past its time to live is left out unless `include_expired`, and counts for those bytes all the same.
        `hold` is told of every byte that the page takes, and may refuse it.
        """
        count = len(self._partitions.of(topic.id))
        if not 0 <= number < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=number)
        partition = self._partitions.get(topic.id, number)
        log = partition.log
        end = partition.committed.last_stable if read_committed else partition.committed.high_watermark
        position = max(log.start_offset, offset or 0)
        if from_time_ms is not None:
            position = max(position, min(await log.offset_for_time(from_time_ms), end))
        expires = None if include_expired else _Expires(self._clock.now_ms(), topic.config.ttl_ms)
        messages: list[StoredMessage] = []
        size = expired_count = 0
        while len(messages) < limit and size < max_bytes and position < end:
            compacted = partition.committed.aborted_gone_below
            try:
                piece = await log.read(position, max_bytes=min(_READ_BYTES, max_bytes), end_offset=end)
            except OffsetOutOfRange:
                if position >= log.start_offset:
                    raise
                position = log.start_offset  # its segment was removed meanwhile
                continue
            if piece is None:
                break
            try:
                data = await piece.read()
            finally:
                piece.release()
            if partition.committed.aborted_gone_below != compacted or position < log.start_offset:
                position = max(position, log.start_offset)
                continue  # what was aborted in these bytes may be forgotten: they are read again, or are gone
            hidden = partition.committed.hidden_frames(data, position) if read_committed else frozenset()
            found = await asyncio.to_thread(
                _decode, data, number, position, limit - len(messages), to_time_ms, hidden, expires
            )
            messages += found.messages
            more = sum(map(message_size, found.messages))
            if hold is not None:
                hold(more)
            size += more + (len(data) if found.expired_count else 0)
            expired_count += found.expired_count
            position = found.next_offset
            if found.is_last:
                break
        return MessagePage(messages, position, expired_count)


class _Found(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    is_last: bool
    expired_count: int


class _Expires(NamedTuple):
    now_ms: int
    ttl_ms: int | None


def _decode(
    data: bytes | memoryview,
    partition: int,
    offset: int,
    limit: int,
    to_time_ms: int | None,
    hidden: frozenset[int],
    expires: _Expires | None,
) -> _Found:
    messages: list[StoredMessage] = []
    expired_count = 0
    for position, header in split_frames(data):
        if to_time_ms is not None and header.append_time_ms > to_time_ms:
            return _Found(messages, offset, True, expired_count)
        if header.base_offset in hidden:
            offset = max(offset, header.next_offset)
            continue
        try:
            found, expired = _frame_messages(data, position, partition, offset, limit - len(messages), expires)
        except InvalidFrame as error:
            if messages:
                break
            raise CorruptData(
                where=f"partition {partition} at offset {header.base_offset}",
                problem=str(error),
                next_offset=header.next_offset,
            ) from error
        messages += found
        expired_count += expired
        offset = max(offset, found[-1].offset + 1 if found else header.next_offset)
        if len(messages) >= limit:
            return _Found(messages, offset, True, expired_count)
        offset = max(offset, header.next_offset)
    return _Found(messages, offset, False, expired_count)


def _frame_messages(
    data: bytes | memoryview, position: int, partition: int, offset: int, limit: int, expires: _Expires | None
) -> tuple[list[StoredMessage], int]:
    """Messages from an offset on, and how many before the last of them were left out."""
    frame = open_frame(data, position)
    header = frame.header
    if header.is_control:
        return [], 0
    past = None if expires is None else past_rows(frame, *expires)
    columns = zip(frame.offsets(), frame.timestamps(), frame.keys(), frame.values(), frame.headers(), strict=True)
    rows = list(columns) if past is None else list(compress(columns, (~past).tolist()))
    if offset > header.base_offset:
        rows = [row for row in rows if row[0] >= offset]
    stop = rows[limit - 1][0] if len(rows) >= limit else header.next_offset
    expired = () if past is None else compress(frame.offsets(), past.tolist())
    priority = Priority(header.priority)
    messages = [
        StoredMessage(
            partition=partition,
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
