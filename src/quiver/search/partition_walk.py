"""Goes through one partition, from the newest message back or from the oldest on, a slice at a time."""

import asyncio
from typing import NamedTuple

from quiver.messages.stored_slice import StoredSlice, read_slice
from quiver.model.errors import CorruptData
from quiver.model.limits import MIB
from quiver.model.message import StoredMessage
from quiver.partition.partition import Partition
from quiver.search.request import SearchRequest
from quiver.search.scan import Scanned, Wanted, scan

_SLICE_BYTES = MIB
_FIRST_SPAN = 1_000
_WIDEST_SPAN = 2**40


class Filter:
    """Which messages a search wants, and whether it goes on. Read by threads."""

    def __init__(self, request: SearchRequest, *, now_ms: int, ttl_ms: int | None) -> None:
        self.where = request.where
        self.newest_first = request.newest_first
        self.include_expired = request.include_expired
        self.now_ms = now_ms
        self.ttl_ms = ttl_ms
        self.is_stopped = False


class WalkState(NamedTuple):
    """Where a walk is: with it another object can go on."""

    low: int
    high: int
    readable_end: int
    edge_time_ms: int
    span: int
    left: int
    scanned_bytes: int = 0
    scanned_messages: int = 0


class PartitionWalk:
    """What is between `low` and `high` was not looked at yet."""

    def __init__(self, number: int, partition: Partition, filter: Filter, bounds: tuple[int, int]) -> None:
        self.number = number
        self._partition = partition
        self._filter = filter
        self._readable_end = partition.committed.last_stable
        """As it was at the beginning: what is below is committed or aborted."""
        self.low, self.high = max(bounds[0], partition.log.start_offset), min(bounds[1], self._readable_end)
        self.edge_time_ms = partition.log.last_append_time_ms if filter.newest_first else 0
        """What is left was appended then or before (after, for a walk from the oldest on)."""
        self.scanned_bytes = 0
        self.scanned_messages = 0
        self._span = _FIRST_SPAN
        """How many offsets the next slice goes back: about as many as fit into it."""

    @classmethod
    def at(cls, number: int, partition: Partition, filter: Filter, state: WalkState) -> "PartitionWalk":
        """A walk that goes on where another one was."""
        walk = cls(number, partition, filter, (state.low, state.high))
        walk._readable_end, walk.edge_time_ms, walk._span = state.readable_end, state.edge_time_ms, state.span
        return walk

    @property
    def state(self) -> WalkState:
        return WalkState(
            self.low,
            self.high,
            self._readable_end,
            self.edge_time_ms,
            self._span,
            self.left,
            self.scanned_bytes,
            self.scanned_messages,
        )

    @property
    def is_done(self) -> bool:
        return self.left == 0

    @property
    def left(self) -> int:
        """Offsets that were not looked at yet."""
        return max(0, self.high - max(self.low, self._partition.log.start_offset))

    @property
    def position(self) -> int:
        """Where the walk goes on."""
        return self.high if self._filter.newest_first else self.low

    async def step(self, limit: int) -> list[StoredMessage]:
        """Looks at one slice; returns what fits, in the order of the walk."""
        step = self._step_back if self._filter.newest_first else self._step_on
        scanned = await step(limit)
        if self._filter.is_stopped:
            return []  # what it found is not complete
        if self._filter.newest_first:
            self.high = scanned.start
        else:
            self.low = scanned.end
        self.scanned_messages += scanned.message_count
        if scanned.edge_time_ms is not None:
            self.edge_time_ms = scanned.edge_time_ms
        return scanned.messages

    async def _step_on(self, limit: int) -> Scanned:
        stored, low = await self._read(self.low)
        if stored is None:
            return _nothing(self.low, self.high if low >= self.high else low)
        found = await asyncio.to_thread(scan, stored, self._wanted(low, self.high, limit))
        assert isinstance(found, Scanned)
        return found if found.end > self.low else found._replace(end=self.low + 1)

    async def _step_back(self, limit: int) -> Scanned:
        """Finds a slice that reaches up to `high`: frames can only be read forward."""
        high = self.high
        low = max(self.low, high - self._span)
        while True:
            stored, start = await self._read(low)
            if stored is None and start < high:
                low = start  # damaged up to there
                continue
            if stored is None or start >= high:
                self._span = min(_WIDEST_SPAN, 8 * self._span)  # a hole, or damage: the walk leaves it behind
                return _nothing(low, high)
            found = await asyncio.to_thread(scan, stored, self._wanted(low, high, limit))
            if isinstance(found, int):
                self._span = max(1, self._span // 2)
                low = max(found, high - self._span)
                continue
            self._span = _adapted(self._span, len(stored.data))
            return found

    async def _read(self, position: int) -> tuple[StoredSlice | None, int]:
        """A slice and where it begins; None where there is nothing to read."""
        try:
            stored = await read_slice(
                self._partition, position, max_bytes=_SLICE_BYTES, end_offset=self._readable_end
            )
        except CorruptData as damage:
            return None, max(position + 1, int(damage.details["next_offset"]))
        if stored is None:
            return None, self.high
        self.scanned_bytes += len(stored.data)
        return stored, stored.position

    def _wanted(self, start: int, end: int, limit: int) -> Wanted:
        filter = self._filter
        return Wanted(
            where=filter.where,
            partition=self.number,
            start=start,
            end=end,
            floor=self.low,
            limit=limit,
            newest_first=filter.newest_first,
            now_ms=filter.now_ms,
            ttl_ms=filter.ttl_ms,
            include_expired=filter.include_expired,
            is_stopped=lambda: filter.is_stopped,
        )


def _nothing(start: int, end: int) -> Scanned:
    return Scanned([], start, end, 0, None)


def _adapted(span: int, size: int) -> int:
    if size < _SLICE_BYTES // 2:
        return min(_WIDEST_SPAN, 2 * span)
    return span
