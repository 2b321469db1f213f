"""What the SDK needs from asyncio. `_backend_sync` has the same names for threads and blocking sockets."""

import asyncio
import contextlib
import inspect
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from quiver.client.connection.socket_reader import Incoming
from quiver.system.network import Network, TcpNetwork, tune

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_READS_PER_TURN = 8
Buffer = bytes | bytearray | memoryview

__all__ = [
    "RUNS_COROUTINES",
    "Buffer",
    "Gate",
    "Lock",
    "Network",
    "Signal",
    "SocketReader",
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

    @property
    def is_set(self) -> bool:
        return self._future.done()

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

    def reader(self, incoming: Incoming, name: str) -> "SocketReader":
        """What receives from it, and closes it in the end."""
        return SocketReader(self._socket, incoming)

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

    def tune(self) -> None:
        tune(self._socket)

    def end_sending(self) -> None:
        """Tells the other side that nothing more comes; its remaining data can still be received."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Wakes everybody who waits in receive or send; they get an error or the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Gate(Protocol[_T_co]):
    """What is waited for."""

    async def wait(self, timeout: float | None) -> _T_co: ...


class SocketReader:
    """Receives where the loop says that something has arrived, so that answers are known in the same turn.

    `_backend_sync` has the one for threads, which says more about `Incoming`.
    """

    def __init__(self, sock: socket.socket, incoming: Incoming) -> None:
        self._socket, self._fd = sock, sock.fileno()
        self._incoming = incoming
        self._loop = asyncio.get_running_loop()
        self._next_turn: asyncio.Handle | None = None
        self._ended = self._loop.create_future()

    def start(self) -> None:
        self._loop.add_reader(self._fd, self._on_readable)

    def expect(self) -> None:
        """A request was sent that nobody waits for: its answer is received like any other."""

    async def wait(self, gate: Gate[_T], timeout: float | None) -> _T:
        return await gate.wait(timeout)

    def end(self) -> None:
        """Nothing more is received."""
        if not self._ended.done():
            self._ended.set_result(None)
            self._loop.remove_reader(self._fd)
            if self._next_turn is not None:
                self._next_turn.cancel()

    async def join(self, timeout: float | None) -> None:
        """Returns when nothing more is received."""
        await asyncio.wait([self._ended], timeout=timeout)

    def close(self) -> None:
        """After `end`."""
        self._socket.close()

    def after_fork(self) -> None:
        """In the child: only the descriptor is closed, the parent still uses the socket and the loop."""
        self._socket.close()

    def _on_readable(self) -> None:
        """Receives until nothing is left, in turns.

        Leaving the rest to the next event would lose it: when data and a reset come as one event, uvloop reports
        that event once and polls no more, so the reset must be found by reading on.
        """
        self._next_turn = None
        try:
            for _ in range(_READS_PER_TURN):
                self._incoming.received(self._socket.recv_into(self._incoming.get_buffer()))
                if self._ended.done():
                    return
        except (BlockingIOError, InterruptedError):
            return
        except BaseException as error:
            self._incoming.receiving_failed(error)
            if not isinstance(error, Exception):
                raise
        else:
            self._next_turn = self._loop.call_soon(self._on_readable)
