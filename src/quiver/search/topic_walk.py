"""Goes through several partitions of a topic and puts what fits into one order, by append time."""

import heapq
from collections.abc import Sequence
from typing import Protocol

from quiver.model.message import StoredMessage
from quiver.search.request import SearchCursor
from quiver.search.scan import stored_size


class Walk(Protocol):
    """Through one partition, here or in another process."""

    @property
    def number(self) -> int: ...

    @property
    def edge_time_ms(self) -> int: ...

    @property
    def scanned_messages(self) -> int: ...

    @property
    def scanned_bytes(self) -> int: ...

    @property
    def is_done(self) -> bool: ...

    @property
    def left(self) -> int: ...

    @property
    def position(self) -> int: ...

    async def step(self, limit: int) -> list[StoredMessage]: ...


_Waiting = tuple[tuple[int, int, int], StoredMessage]


class TopicWalk:
    """A message is released when no partition can have one that comes before it."""

    def __init__(self, walks: Sequence[Walk], *, newest_first: bool) -> None:
        self._walks = walks
        self._newest_first = newest_first
        self._sign = -1 if newest_first else 1
        self._waiting: list[_Waiting] = []
        self.waiting_bytes = 0
        self._total = sum(walk.left for walk in walks)

    @property
    def is_done(self) -> bool:
        return not self._waiting and all(walk.is_done for walk in self._walks)

    @property
    def total(self) -> int:
        """Offsets to look at."""
        return self._total

    @property
    def scanned(self) -> int:
        """Offsets that were looked at; those that retention has removed meanwhile count as well."""
        return max(0, self._total - sum(walk.left for walk in self._walks))

    @property
    def scanned_messages(self) -> int:
        return sum(walk.scanned_messages for walk in self._walks)

    @property
    def scanned_bytes(self) -> int:
        return sum(walk.scanned_bytes for walk in self._walks)

    async def step(self, limit: int) -> None:
        """Looks at the next slice of the partition that comes first."""
        open_walks = [walk for walk in self._walks if not walk.is_done]
        if not open_walks:
            return
        walk = min(open_walks, key=lambda walk: (self._sign * walk.edge_time_ms, walk.number))
        for message in await walk.step(limit):
            sign = self._sign
            place = (sign * message.append_time_ms, message.partition, sign * message.offset)
            heapq.heappush(self._waiting, (place, message))
            self.waiting_bytes += stored_size(message)

    def release(self, limit: int, *, all: bool = False) -> list[StoredMessage]:
        """The messages that come next. With `all` also those that others may come before."""
        released: list[StoredMessage] = []
        edge = min((self._sign * walk.edge_time_ms for walk in self._walks if not walk.is_done), default=None)
        while self._waiting and len(released) < limit:
            if not all and edge is not None and self._waiting[0][0][0] > edge:
                break
            message = heapq.heappop(self._waiting)[1]
            self.waiting_bytes -= stored_size(message)
            released.append(message)
        return released

    def cursor(self) -> SearchCursor | None:
        """Where a search goes on that released what this one did; None if there is nothing left."""
        if self.is_done:
            return None
        offsets = {walk.number: walk.position for walk in self._walks}
        for _, message in self._waiting:
            known = offsets[message.partition]
            offsets[message.partition] = (
                max(known, message.offset + 1) if self._newest_first else min(known, message.offset)
            )
        return SearchCursor(self._newest_first, offsets)
