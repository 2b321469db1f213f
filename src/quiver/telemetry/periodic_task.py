"""Work that is done every few seconds for as long as the broker runs."""

import asyncio
from collections.abc import Awaitable, Callable

from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask


class PeriodicTask:
    """Awaits `work` every `every_seconds`, the first time after one pause. Belongs to one event loop.

    The pause begins when the work has ended, so two rounds never overlap. The work gets a Failures for parts that
    may fail on their own; an unexpected failure is shown as `problem`, and the rounds continue after a pause.
    """

    def __init__(self, name: str, work: Callable[[Failures], Awaitable[None]], *, every_seconds: float) -> None:
        self._work = work
        self._every_seconds = every_seconds
        self._task = SupervisedTask(name, self._run)

    @property
    def name(self) -> str:
        return self._task.name

    @property
    def problem(self) -> str | None:
        """Why a round has failed lately."""
        return self._task.problem

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        """Cancels the round that runs, at the point where it waits, and begins no more."""
        await self._task.stop()

    def cancel(self) -> None:
        """Like `stop`, without waiting for the end."""
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_seconds)
            failures = Failures()
            await self._work(failures)
            failures.check()
