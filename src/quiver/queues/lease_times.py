"""When a lease ends or a retry is due next, over the queues of all partitions."""

import asyncio

from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock

_SHORTEST_PAUSE_MS = 20
"""Leases and retries that are due within this time are handled together."""
LONGEST_PAUSE_MS = 1_000


class LeaseTimes:
    """All times are those of the clock of leases."""

    def __init__(self, lease_clock: Clock) -> None:
        self._clock = lease_clock
        self._deadlines: Deadlines[tuple[int, int]] = Deadlines()
        self._sooner = asyncio.Event()
        self._pause_until_ms = 0

    def note(self, queue: PartitionQueue, at_ms: int | None) -> None:
        """Something happens there at that time, if not before."""
        if at_ms is not None:
            self._deadlines.note(queue.place, at_ms)
            if at_ms < self._pause_until_ms:
                self._sooner.set()

    def forget(self, queue: PartitionQueue) -> None:
        """It is removed."""
        self._deadlines.forget(queue.place)

    def take(self, now_ms: int) -> tuple[int, int] | None:
        """Topic id and partition of a queue whose time has come."""
        return self._deadlines.take(now_ms)

    async def pause(self) -> None:
        """Until the next time, or until an earlier one that is noted meanwhile."""
        begun_ms = self._clock.now_ms()
        shortest_ms, longest_ms = begun_ms + _SHORTEST_PAUSE_MS, begun_ms + LONGEST_PAUSE_MS
        while True:
            nearest_ms = self._deadlines.nearest_ms()
            until_ms = longest_ms if nearest_ms is None else max(shortest_ms, min(nearest_ms + 1, longest_ms))
            self._pause_until_ms = until_ms if until_ms > shortest_ms else 0
            self._sooner.clear()
            try:
                async with asyncio.timeout(min(until_ms - self._clock.now_ms(), LONGEST_PAUSE_MS) / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                return
