"""Simulates threads: each call happens in one instant between its request and its result."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from quiver.system.threads import OnEnd
from quiver.testing.simulation.system.disk import Disk

P = ParamSpec("P")
T = TypeVar("T")


class SimulatedThreads:
    """A call waits for the disk, happens, and its end is known a little later: what it changes is there before
    the loop knows. Of `count` calls at a time none begins while as many run."""

    def __init__(self, disk: Disk, count: int) -> None:
        self._disk = disk
        self._free = asyncio.Semaphore(count)
        self._is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        async with self._free:
            await asyncio.sleep(self._disk.delay_seconds())
            begun = asyncio.get_running_loop().create_task(self._begin(call, *args, **kwargs))
            try:
                return await asyncio.shield(begun)
            except asyncio.CancelledError:
                await _until_done(begun)
                raise

    async def _begin(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        finally:
            await asyncio.sleep(self._disk.delay_seconds())

    def begin(self, call: Callable[[], object], on_end: OnEnd) -> None:
        task = asyncio.get_running_loop().create_task(self.run(call))
        task.add_done_callback(
            lambda done: on_end(asyncio.CancelledError() if done.cancelled() else done.exception())
        )

    def run_at_once(self, call: Callable[[], object]) -> bool:
        return False

    def close(self) -> None:
        self._is_closed = True


async def _until_done(begun: "asyncio.Task[T]") -> None:
    while not begun.done():
        try:
            await asyncio.wait([begun])
        except asyncio.CancelledError:
            continue
    if not begun.cancelled():
        begun.exception()  # the caller is gone
