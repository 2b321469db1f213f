"""Messages of all partitions of a topic, one by one, in the order in which they were appended."""

import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from quiver.messages.browse import MessagePage, message_size
from quiver.model.limits import PAGE_BYTES
from quiver.model.message import StoredMessage

_LEAST_READ = 10

ReadPartition = Callable[[int, int, int, int], Awaitable[MessagePage]]
"""Reads a part of a partition: number, offset, limit and bytes."""


class TopicPage(NamedTuple):
    messages: list[StoredMessage]
    next_offsets: list[int]
    """Where the next page begins, by partition."""
    expired_count: int


class _Source:
    """What was read from a partition and is not in the page yet."""

    def __init__(self, number: int, offset: int) -> None:
        self.number = number
        self.position = offset
        """The offset after what was read."""
        self.messages: deque[StoredMessage] = deque()
        self.expired_count = 0
        self.is_read = False

    @property
    def next_offset(self) -> int:
        return self.messages[0].offset if self.messages else self.position

    @property
    def place(self) -> tuple[int, int]:
        return self.messages[0].append_time_ms, self.number

    async def fill(self, read: ReadPartition, limit: int, max_bytes: int) -> bool:
        """False when there is nothing more for this page."""
        if not self.messages and not self.is_read:
            page = await read(self.number, self.position, limit, max_bytes)
            self.messages.extend(page.messages)
            self.position = page.next_offset
            self.expired_count += page.expired_count
            self.is_read = not page.messages
        return bool(self.messages)


async def read_all(read: ReadPartition, offsets: Sequence[int], limit: int) -> TopicPage:
    """Up to `limit` messages and about 16 MiB, from an offset in each partition; ties go by partition."""
    sources = [_Source(number, offset) for number, offset in enumerate(offsets)]
    part = min(limit, max(_LEAST_READ, 4 * limit // len(sources)))
    part_bytes = PAGE_BYTES // len(sources)
    heads = [(*source.place, source) for source in sources if await source.fill(read, part, part_bytes)]
    heapq.heapify(heads)
    messages: list[StoredMessage] = []
    size = 0
    while heads and len(messages) < limit and size < PAGE_BYTES:
        source = heads[0][2]
        messages.append(source.messages.popleft())
        size += message_size(messages[-1])
        if await source.fill(read, part, part_bytes):
            heapq.heapreplace(heads, (*source.place, source))
        else:
            heapq.heappop(heads)
    return TopicPage(
        messages, [source.next_offset for source in sources], sum(source.expired_count for source in sources)
    )
