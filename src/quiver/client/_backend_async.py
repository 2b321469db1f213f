"""What the SDK needs from asyncio. `_backend_sync` has the same names for threads and blocking sockets."""

import asyncio
import contextlib
import inspect
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from quiver.system.network import Network, TcpNetwork

_T = TypeVar("_T")
Buffer = bytes | bytearray | memoryview

__all__ = [
    "RUNS_COROUTINES",
    "Buffer",
    "Lock",
    "Network",
    "Signal",
    "Stream",
    "Task",
    "TcpNetwork",
    "Waiter",
    "acquire",
    "finished",
    "flatten",
    "monotonic",
    "signal_safe",
    "sleep",
]

RUNS_COROUTINES = True
"""Whether a user's function may be asynchronous."""

Lock = asyncio.Lock


class Signal:
    """Set by anybody; one waiter waits for it and clears it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    async def wait(self, timeout: float | None) -> None:
        """Returns when it is set or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()


class Waiter(Generic[_T]):
    """One value, passed once."""

    __slots__ = ("_future",)

    def __init__(self) -> None:
        self._future: asyncio.Future[_T | None] = asyncio.get_running_loop().create_future()

    def set(self, value: _T | None = None) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def wait(self, timeout: float | None) -> _T | None:
        """The value. Raises TimeoutError if it does not come in time."""
        if self._future.done() or timeout is None:
            return await self._future
        timer = asyncio.get_running_loop().call_later(max(0.0, timeout), self._expire)
        try:
            return await self._future
        finally:
            timer.cancel()

    def _expire(self) -> None:
        if not self._future.done():
            self._future.set_exception(TimeoutError())


class Task:
    def __init__(self, run: Callable[[], Awaitable[None]], name: str) -> None:
        async def body() -> None:
            await run()

        self._task = asyncio.get_running_loop().create_task(body(), name=name)

    def cancel(self) -> None:
        """Cancels a task that waits, unless it is the current one."""
        if not self.is_current:
            self._task.cancel()

    @property
    def is_current(self) -> bool:
        return asyncio.current_task() is self._task

    async def join(self, timeout: float | None = None) -> None:
        if not self.is_current:
            await asyncio.wait([self._task], timeout=timeout)


def signal_safe(call: Callable[[], object]) -> Callable[[], object]:
    """For signal handlers, which run between any two steps of the main thread."""
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(call)


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


def monotonic() -> float:
    """The clock of timeouts here."""
    return asyncio.get_running_loop().time()


async def finished(outcome: Any) -> None:
    """Awaits what a user's function returned, if that is awaitable."""
    if inspect.isawaitable(outcome):
        await outcome


async def acquire(lock: Lock, timeout: float | None) -> bool:
    """Returns whether the lock was acquired in time; without a timeout, always True."""
    if timeout is None or not lock.locked():
        return await lock.acquire()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, timeout)):
            return await lock.acquire()
    return False


def flatten(groups: AsyncIterator[Iterable[_T]]) -> AsyncIterator[_T]:
    return _Flattened(groups)


class _Flattened(AsyncIterator[_T]):
    """Continues with the next group after one that raised."""

    def __init__(self, groups: AsyncIterator[Iterable[_T]]) -> None:
        self._groups = groups
        self._items: Any = _items_of(groups)

    def __anext__(self) -> Awaitable[_T]:
        if self._items.ag_frame is None:  # it has ended, or raised
            self._items = _items_of(self._groups)
        following: Awaitable[_T] = self._items.__anext__()
        return following


async def _items_of(groups: AsyncIterator[Iterable[_T]]) -> AsyncGenerator[_T, None]:
    async for group in groups:
        for item in group:
            yield item


class Stream:
    """A connected socket."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._loop = asyncio.get_running_loop()

    async def receive_into(self, buffer: memoryview, whole: bool = False) -> int:
        """Receives some bytes; 0 at the end. `whole` is a hint that fewer than all of them are useless."""
        return await self._loop.sock_recv_into(self._socket, buffer)

    async def send(self, buffers: Sequence[Buffer]) -> None:
        try:
            sent = self._socket.sendmsg(buffers)
        except (BlockingIOError, InterruptedError):
            sent = 0
        for buffer in buffers:
            size = len(buffer)
            if sent >= size:
                sent -= size
                continue
            await self._loop.sock_sendall(self._socket, memoryview(buffer)[sent:])
            sent = 0

    def set_no_delay(self) -> None:
        """Small requests are sent at once; nothing to do on a socket pair."""
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def end_sending(self) -> None:
        """Tells the other side that nothing more comes; its remaining data can still be received."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Wakes everybody who waits in receive or send; they get an error or the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()
