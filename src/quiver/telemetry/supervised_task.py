"""A task that has to run as long as the broker does: a failure is logged and shown, and the task starts again."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from quiver.system.backoff import Backoff

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
WELL_AFTER_SECONDS = 30.0
"""A task that has run for this long since it failed is healthy again."""


class SupervisedTask:
    """Calls `run`, which returns only when it is cancelled. Belongs to one event loop."""

    def __init__(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.name = name
        self._run = run
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = None
        """Why it has failed lately."""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._supervise(), name=self.name)

    async def stop(self) -> None:
        task = self._task
        self.cancel()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def cancel(self) -> None:
        """Like `stop`, without waiting for the end."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _supervise(self) -> None:
        loop, backoff = asyncio.get_running_loop(), Backoff(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        while True:
            began_at = loop.time()
            well = loop.call_later(WELL_AFTER_SECONDS, self._is_well)
            try:
                await self._run()
                raise RuntimeError("it has returned")
            except (Exception, asyncio.CancelledError) as error:
                if _is_being_cancelled():
                    raise
                if loop.time() - began_at >= WELL_AFTER_SECONDS:
                    backoff.reset()
                pause = backoff.next_seconds()
                self.problem = f"the task has failed and starts again: {type(error).__name__}: {error}"
                logger.error("%s failed unexpectedly, and starts again in %.0f s", self.name, pause, exc_info=error)
            finally:
                well.cancel()
            await asyncio.sleep(pause)

    def _is_well(self) -> None:
        self.problem = None


def _is_being_cancelled() -> bool:
    """Whether this task itself was cancelled, rather than one that it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
