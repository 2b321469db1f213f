"""An event loop on virtual time. Everything in asyncio that waits asks the loop, and so waits here."""

import asyncio
import contextlib
import sys
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextvars import Context
from typing import Any, cast

from quiver.testing.simulation.system.sockets import SimulatedSocket
from quiver.testing.simulation.world import World

_STEP_SECONDS = 0.001
"""What one step of long work takes, for `quiver.system.pace`: every fifth step lets others run."""
_EXECUTOR_SECONDS = 0.002


class SimulatedLoop:
    """The loop of one process, with those methods of asyncio's loops that Quiver and asyncio itself use.

    `kill` ends it: what it was about to do never happens.

    `on_error` gets what nobody caught.
    """

    def __init__(self, world: World, name: str, on_error: Callable[[str], None]) -> None:
        self.name = name
        self.is_dead = self.is_paused = False
        self.as_loop = cast(asyncio.AbstractEventLoop, self)
        self._world = world
        self._chance = world.seeded(f"loop/{name}")
        self._on_error = on_error
        self._ready: deque[asyncio.Handle] = deque()
        self._is_waiting = False
        """The world knows that there is something to do."""
        self._processor_seconds = 0.0
        self._kept: list[asyncio.Task[Any]] = []
        world.loops.append(self)

    # turns

    def take_turn(self) -> None:
        self._is_waiting = False
        if self.is_paused:
            return
        ready = self._ready
        events._set_running_loop(self.as_loop)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, self._close_generator)
        try:
            for _ in range(len(ready)):
                if self.is_dead:
                    break
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)
        if ready:
            self._wake()

    def kill(self) -> None:
        """Nothing runs here any more. Tasks are kept: their clean-up must not run either."""
        self._kept += asyncio.all_tasks(self.as_loop)
        self.is_dead = True

    def pause(self) -> None:
        """Nothing runs here until `resume`; what happens meanwhile waits."""
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        if self._ready:
            self._wake()

    def discard(self) -> None:
        if not self.is_dead:
            self.kill()
        events._set_running_loop(self.as_loop)
        try:
            for task in self._kept:
                with contextlib.suppress(BaseException):
                    task.get_coro().close()
            self._ready.clear()
            self._kept.clear()
        finally:
            events._set_running_loop(None)

    def _wake(self) -> None:
        if not self._is_waiting and not self.is_dead and not self.is_paused:
            self._is_waiting = True
            self._world.is_ready(self)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self.is_dead:
            self.call_soon(self.create_task, generator.aclose())

    # what asyncio asks of a loop

    def time(self) -> float:
        return self._world.now

    def processor_seconds(self) -> float:
        """For `quiver.system.pace`: each look at the time is a step of work."""
        self._processor_seconds += _STEP_SECONDS
        return self._processor_seconds

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self.as_loop, context)
        if not self.is_dead:
            self._ready.append(handle)
            self._wake()
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._world.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self.as_loop, context)
        if not self.is_dead:
            self._world.at(when, self._fire, timer)
        return timer

    def _fire(self, timer: asyncio.TimerHandle) -> None:
        if not timer.cancelled() and not self.is_dead:
            self._ready.append(timer)
            self._wake()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self.as_loop)

    def create_task(
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> "asyncio.Task[Any]":
        task = asyncio.Task(coro, loop=self.as_loop, name=name, context=context)
        if self.is_dead:
            self._kept.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.is_dead:
            error = context.get("exception")
            self._on_error(f"{self.name}: {context.get('message')}: {error!r}")

    async def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        """Without threads: after a while, at once."""
        await asyncio.sleep(self._chance.random() * _EXECUTOR_SECONDS)
        result = func(*args)
        await asyncio.sleep(self._chance.random() * _EXECUTOR_SECONDS)
        return result

    # sockets

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        SimulatedSocket.of(self._world, fd).set_reader(self, asyncio.Handle(callback, args, self.as_loop, None))

    def remove_reader(self, fd: Any) -> bool:
        return SimulatedSocket.of(self._world, fd).set_reader(self, None)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:
        SimulatedSocket.of(self._world, fd).set_writer(self, asyncio.Handle(callback, args, self.as_loop, None))

    def remove_writer(self, fd: Any) -> bool:
        return SimulatedSocket.of(self._world, fd).set_writer(self, None)

    async def sock_recv_into(self, sock: Any, buf: Any) -> int:
        while True:
            try:
                return int(sock.recv_into(buf))
            except BlockingIOError:
                await self._until(sock, SimulatedSocket.set_reader)

    async def sock_recv(self, sock: Any, size: int) -> bytes:
        buffer = bytearray(size)
        return bytes(buffer[: await self.sock_recv_into(sock, buffer)])

    async def sock_sendall(self, sock: Any, data: Any) -> None:
        left = memoryview(data).cast("B")
        while left:
            try:
                left = left[sock.send(left) :]
            except BlockingIOError:
                await self._until(sock, SimulatedSocket.set_writer)

    async def _until(
        self, sock: SimulatedSocket, watch: Callable[[SimulatedSocket, Any, asyncio.Handle | None], bool]
    ) -> None:
        ready = self.create_future()
        watch(sock, self, asyncio.Handle(_set, (ready,), self.as_loop, None))
        try:
            await ready
        finally:
            watch(sock, self, None)


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
