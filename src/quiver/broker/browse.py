"""Browse: messages one by one, for people and small clients."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from quiver.broker.partitions import Partitions
from quiver.model.errors import CorruptData, InvalidFrame, OffsetOutOfRange, PartitionNotFound
from quiver.model.limits import MIB
from quiver.model.message import StoredMessage
from quiver.model.priority import Priority
from quiver.model.topic import Topic
from quiver.partition.fusion import message_bytes
from quiver.records.header import FrameHeader
from quiver.records.read import open_frame, split_frames

_READ_BYTES = MIB
_PAGE_BYTES = 16 * MIB


def message_size(message: StoredMessage) -> int:
    return message_bytes(message.value, message.key, message.headers)


class MessagePage(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    """Where the next page begins."""


class Browse:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def read(
        self,
        topic: Topic,
        number: int,
        *,
        offset: int | None,
        limit: int,
        from_time_ms: int | None,
        to_time_ms: int | None,
        read_committed: bool = True,
        hold: Callable[[int], None] | None = None,
    ) -> MessagePage:
        """Up to `limit` messages and about 16 MiB; below the earliest offset it begins at the earliest.

        `hold` is told of every byte that the page takes, and may refuse it.
        """
        count = len(self._partitions.of(topic.id))
        if not 0 <= number < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=number)
        partition = self._partitions.get(topic.id, number)
        log = partition.log
        end = partition.last_stable if read_committed else partition.high_watermark
        position = max(log.start_offset, offset or 0)
        if from_time_ms is not None:
            position = max(position, min(await log.offset_for_time(from_time_ms), end))
        messages: list[StoredMessage] = []
        size = 0
        while len(messages) < limit and size < _PAGE_BYTES and position < end:
            compacted = partition.aborted_gone_below
            try:
                piece = await log.read(position, max_bytes=_READ_BYTES, end_offset=end)
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
            if partition.aborted_gone_below != compacted:
                continue  # what was aborted in these bytes may be forgotten: they are read anew
            hidden = partition.hidden_frames(data, position) if read_committed else frozenset()
            found = await asyncio.to_thread(
                _decode, data, number, position, limit - len(messages), to_time_ms, hidden
            )
            messages += found.messages
            more = sum(map(message_size, found.messages))
            if hold is not None:
                hold(more)
            size += more
            position = found.next_offset
            if found.is_last:
                break
        return MessagePage(messages, position)


class _Found(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    is_last: bool


def _decode(
    data: bytes | memoryview,
    partition: int,
    offset: int,
    limit: int,
    to_time_ms: int | None,
    hidden: frozenset[int],
) -> _Found:
    messages: list[StoredMessage] = []
    for position, header in split_frames(data):
        if to_time_ms is not None and header.append_time_ms > to_time_ms:
            return _Found(messages, offset, True)
        if header.base_offset in hidden:
            offset = max(offset, header.next_offset)
            continue
        try:
            found = _frame_messages(data, position, header, partition, offset, limit - len(messages))
        except InvalidFrame as error:
            if messages:
                break
            raise CorruptData(
                where=f"partition {partition} at offset {header.base_offset}",
                problem=str(error),
                next_offset=header.next_offset,
            ) from error
        messages += found
        offset = max(offset, found[-1].offset + 1 if found else header.next_offset)
        if len(messages) >= limit:
            return _Found(messages, offset, True)
        offset = max(offset, header.next_offset)
    return _Found(messages, offset, False)


def _frame_messages(
    data: bytes | memoryview, position: int, header: FrameHeader, partition: int, offset: int, limit: int
) -> list[StoredMessage]:
    frame = open_frame(data, position)
    if header.is_control:
        return []
    skip = max(0, offset - header.base_offset)
    columns = zip(frame.offsets(), frame.timestamps(), frame.keys(), frame.values(), frame.headers(), strict=True)
    rows = [row for row in columns if row[0] >= offset] if skip else list(columns)
    priority = Priority(header.priority)
    return [
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
