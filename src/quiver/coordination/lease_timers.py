"""When leases end: a timer for each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quiver.structures.ordered_set import OrderedSet

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 1.0


class LeaseTimers:
    """Awaits `end` for each lease that was not kept alive, and again later if that fails."""

    def __init__(self, end: Callable[[int], Awaitable[object]]) -> None:
        self._end = end
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def start(self, lease_id: int, ttl_ms: int) -> None:
        """The whole time from now on."""
        self.stop(lease_id)
        self._timers[lease_id] = asyncio.get_running_loop().call_later(ttl_ms / 1000, self._begin_end, lease_id)

    def is_running(self, lease_id: int) -> bool:
        """False from the moment at which the lease begins to end: nobody is told that it lasts."""
        return lease_id in self._timers

    def stop(self, lease_id: int) -> None:
        timer = self._timers.pop(lease_id, None)
        if timer is not None:
            timer.cancel()

    async def close(self) -> None:
        for lease_id in list(self._timers):
            self.stop(lease_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin_end(self, lease_id: int) -> None:
        self.stop(lease_id)
        task = asyncio.get_running_loop().create_task(self._run_end(lease_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_end(self, lease_id: int) -> None:
        while True:
            try:
                await self._end(lease_id)
                return
            except Exception as error:
                logger.warning("the end of lease %d could not be written, and is tried again: %s", lease_id, error)
                await asyncio.sleep(_AGAIN_SECONDS)
