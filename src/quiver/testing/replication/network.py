"""Calls between simulated processes that are lost, late, repeated and reordered, over links that are cut."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.errors import ConnectionLost, QuiverError
from quiver.testing.simulation.system.loop import SimulatedLoop
from quiver.testing.simulation.world import World

Handle = Callable[[Any], Awaitable[Any]]
_LOST, _REPEATED, _LATE = 0.01, 0.02, 0.02
_LATEST_SECONDS = 1.0


class CallNetwork:
    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.seeded("calls")
        self.cut: set[tuple[int, int]] = set()
        """From whom to whom nothing goes."""
        self.is_calm = False
        self.processes: dict[int, tuple[SimulatedLoop, Handle]] = {}

    async def call(self, source: int, target: int, message: Any) -> Any:
        """Waits for ever where the message or its response is lost."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        for _ in range(2 if self._happens(_REPEATED) else 1):
            self._pass(source, target, self._deliver, target, message, (source, loop, future))
        return await future

    def _happens(self, share: float) -> bool:
        return not self.is_calm and self._chance.random() < share

    def _pass(self, source: int, target: int, call: Callable[..., None], *args: Any) -> None:
        if self._happens(_LOST):
            return
        seconds = 0.0002 + self._chance.random() * 0.001
        if self._happens(_LATE):
            seconds += self._chance.random() * _LATEST_SECONDS
        self._world.later(seconds, self._arrive, source, target, call, args)

    def _arrive(self, source: int, target: int, call: Callable[..., None], args: tuple[Any, ...]) -> None:
        if (source, target) not in self.cut:
            call(*args)

    def _deliver(self, target: int, message: Any, caller: Any) -> None:
        if target in self.processes:
            loop, handle = self.processes[target]
            loop.call_soon(lambda: loop.create_task(self._run(handle, message, target, caller)))

    async def _run(self, handle: Handle, message: Any, target: int, caller: Any) -> None:
        source, loop, future = caller
        result: Any
        try:
            result = await handle(message)
        except (QuiverError, OSError) as error:
            result = error
        self._pass(target, source, loop.call_soon, _respond, future, result)


def _respond(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        if isinstance(result, QuiverError):
            future.set_exception(result)
        elif isinstance(result, OSError):
            future.set_exception(ConnectionLost(address="a node", problem=str(result)))
        else:
            future.set_result(result)
