"""A page of the delayed messages of several partitions, in order of time."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from quiver.delays.pending import Pending
from quiver.system.pace import paced


class PendingTotal(NamedTuple):
    counts: dict[int, int]
    """By partition; without those that have none."""
    last_ms: int
    """When the last one is due; 0 if there is none."""


class DelayEntry(NamedTuple):
    time_ms: int
    partition: int
    id: int
    priority: int


class PendingMessages(Protocol):
    """The delayed messages of a topic, by partition; partitions without any may be left out."""

    async def total(self) -> PendingTotal: ...

    async def counts_before(self, time_ms: int) -> dict[int, int]:
        """How many are due before a time."""

    async def slices(self, bounds: Mapping[int, tuple[int, int]]) -> list[DelayEntry]:
        """From one position up to another, in the order of time, in each partition."""


class OpenPending:
    """The partitions of this process."""

    def __init__(self, partitions: Mapping[int, Pending]) -> None:
        self._partitions = partitions

    async def total(self) -> PendingTotal:
        counts = {number: len(pending) for number, pending in self._partitions.items() if len(pending)}
        return PendingTotal(counts, max((self._partitions[number].last_ms() for number in counts), default=0))

    async def counts_before(self, time_ms: int) -> dict[int, int]:
        return {
            number: count
            async for number, pending in paced(list(self._partitions.items()))
            if (count := pending.count_before(time_ms))
        }

    async def slices(self, bounds: Mapping[int, tuple[int, int]]) -> list[DelayEntry]:
        found: list[DelayEntry] = []
        async for number, (start, end) in paced(bounds.items()):
            if (pending := self._partitions.get(number)) is not None:
                found += [DelayEntry(time_ms, number, id, level) for time_ms, id, level in pending.page(start, end)]
        return found


async def delay_page(pending: PendingMessages, skip: int, limit: int) -> list[DelayEntry]:
    """Those after the first `skip`, in order of time, partition and id.

    The page is found by bisecting the time, so that a late page costs no more than the first. Messages that come or
    leave meanwhile may or may not be in the page.
    """
    total = await pending.total()
    starts, ends = await _positions(pending, total, skip), await _positions(pending, total, skip + limit)
    bounds = {number: (starts.get(number, 0), end) for number, end in ends.items() if starts.get(number, 0) < end}
    return sorted(await pending.slices(bounds)) if bounds else []


async def _positions(pending: PendingMessages, total: PendingTotal, count: int) -> dict[int, int]:
    """How many messages of each partition are among the first `count`."""
    if count <= 0:
        return {}
    if count >= sum(total.counts.values()):
        return total.counts
    low, high = 0, total.last_ms + 1
    while low + 1 < high:  # at most `count` are due before `low`, and more before `high`
        middle = (low + high) // 2
        if sum((await pending.counts_before(middle)).values()) <= count:
            low = middle
        else:
            high = middle
    positions, upto = await pending.counts_before(low), await pending.counts_before(low + 1)
    rest = count - sum(positions.values())
    for number in sorted(upto):
        before = positions.get(number, 0)
        there = max(0, min(rest, upto[number] - before))
        positions[number] = before + there
        rest -= there
    return positions
