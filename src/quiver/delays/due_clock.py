"""Calls partitions when they have something due."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock
from quiver.telemetry.supervised_task import SupervisedTask

logger = logging.getLogger(__name__)

Key = tuple[int, int]
_TICK_SECONDS = 0.25
"""The clock may jump, so it is looked at this often while anything waits."""
_PAUSE_SECONDS = 0.02
"""What falls due within this time after a call goes together."""


class DueClock:
    """`next_ms` says when a key wants to be called, `call` does it; a key is called by one task at a time."""

    def __init__(
        self, clock: Clock, *, next_ms: Callable[[Key], int | None], call: Callable[[Key], Awaitable[None]]
    ) -> None:
        self._clock = clock
        self._next_ms = next_ms
        self._call = call
        self._deadlines: Deadlines[Key] = Deadlines()
        self._news = asyncio.Event()
        self._calls: dict[Key, asyncio.Task[None]] = {}
        self.task = SupervisedTask("delivery of delayed messages", self._run)

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        """Begins no more calls and waits for those that run."""
        await self.task.stop()
        await asyncio.gather(*self._calls.values(), return_exceptions=True)

    def note(self, key: Key) -> None:
        """A key may want to be called earlier than it said before."""
        if key in self._calls:
            return  # it is asked when the call has ended
        before = self._deadlines.nearest_ms()
        self._deadlines.note(key, self._next_ms(key))
        if self._deadlines.nearest_ms() != before:
            self._news.set()

    async def _run(self) -> None:
        while True:
            self._news.clear()
            now_ms = self._clock.now_ms()
            while (key := self._deadlines.take(now_ms + 1)) is not None:
                if key not in self._calls:
                    self._calls[key] = asyncio.get_running_loop().create_task(self._make(key))
            nearest_ms = self._deadlines.nearest_ms()
            seconds = None if nearest_ms is None else min(_TICK_SECONDS, max(1, nearest_ms - now_ms) / 1000)
            try:
                async with asyncio.timeout(seconds):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _make(self, key: Key) -> None:
        try:
            await self._call(key)
        except Exception:
            logger.exception("due messages of partition %d of topic %d wait", key[1], key[0])
        try:
            await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            del self._calls[key]
            self.note(key)
