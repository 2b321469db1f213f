"""What the SDK needs from threads and blocking sockets. `_backend_async` has the same names for asyncio."""

import contextlib
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from quiver.client.connection.socket_reader import Gate, Incoming, SocketReader
from quiver.system.network import tune

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

_T = TypeVar("_T")
Buffer = bytes | bytearray | memoryview

RUNS_COROUTINES = False
"""Whether a user's function may be asynchronous."""

Lock = threading.Lock

_IOV_MAX = 1024
_SEND_TIMEOUT_SECONDS = 60


class Signal:
    """Set by anybody, waited for and cleared by one.

    A bare lock, which is held while the signal is not set: an interrupt (Ctrl-C) may end `wait` at any point and
    leaves nothing behind that others wait for.
    """

    __slots__ = ("_gate", "on_set")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self.on_set: Callable[[], None] | None = None

    def set(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            return  # it was set
        if self.on_set is not None:
            self.on_set()

    def clear(self) -> None:
        self._gate.acquire(blocking=False)

    @property
    def is_set(self) -> bool:
        return not self._gate.locked()

    def wait(self, timeout: float | None) -> None:
        """Returns when it is set or the time is over."""
        if self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            self.set()


class Waiter(Generic[_T]):
    """One value, handed over once."""

    __slots__ = ("_gate", "_value", "on_set")

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._value: _T | None = None
        self.on_set: Callable[[], None] | None = None

    def set(self, value: _T | None = None) -> None:
        if self._gate.locked():
            self._value = value
            try:
                self._gate.release()
            except RuntimeError:
                return
            if self.on_set is not None:
                self.on_set()

    @property
    def is_set(self) -> bool:
        return not self._gate.locked()

    def wait(self, timeout: float | None) -> _T | None:
        """The value. Raises TimeoutError if it does not come in time."""
        if not self._gate.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise TimeoutError
        return self._value


class Task:
    def __init__(self, run: Callable[[], None], name: str) -> None:
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Threads end by themselves once what they wait for is aborted."""

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def join(self, timeout: float | None = None) -> None:
        if not self.is_current:
            self._thread.join(timeout)


def signal_safe(call: Callable[[], object]) -> Callable[[], object]:
    """For signal handlers, which run between any two steps of the main thread: `call` takes no lock."""
    return call


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def monotonic() -> float:
    """The time that timeouts here are measured by."""
    return time.monotonic()


def finished(outcome: object) -> None:
    """A user's function has done its work when it returns."""


def acquire(lock: threading.Lock, timeout: float | None) -> bool:
    """Whether the lock was acquired in time; without a timeout, always."""
    return lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout))


def flatten(groups: Iterator[Iterable[_T]]) -> Iterator[_T]:
    """Goes on with the next group after one that raised."""
    return itertools.chain.from_iterable(groups)


class Stream:
    """A connected socket, blocking: each call gives up the interpreter lock once, however many bytes it moves."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_TIMEOUT_SECONDS, 0))
        self._socket = sock

    def reader(self, incoming: Incoming, name: str) -> SocketReader:
        """What receives from it, and closes it in the end."""
        return SocketReader(self._socket, incoming, name)

    def send(self, buffers: Sequence[Buffer]) -> None:
        pending = list(buffers)
        while pending:
            sent = self._socket.sendmsg(pending[:_IOV_MAX])
            while pending and sent >= len(pending[0]):
                sent -= len(pending.pop(0))
            if sent:
                pending[0] = memoryview(pending[0])[sent:]

    def tune(self) -> None:
        tune(self._socket)

    def end_sending(self) -> None:
        """The other side is told that nothing more comes; what it still has to say can be received."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def abort(self) -> None:
        """Wakes everybody who waits in receive or send; they get an error or the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Network(Protocol):
    def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        """A connected socket, to the first address of the name that responds; each gets its share of the time. Raises
        OSError or TimeoutError if that fails."""
        ...


class TcpNetwork:
    def dial(self, host: str, port: int, timeout: float) -> socket.socket:
        deadline = time.monotonic() + timeout
        problem: OSError = OSError(f"{host} has no address")
        found = _resolve(host, port, timeout)
        for position, (family, kind, protocol, _, address) in enumerate(found):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.settimeout(max(0.001, deadline - time.monotonic()) / (len(found) - position))
                sock.connect(address)
                sock.settimeout(None)
            except OSError as error:
                sock.close()
                problem = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise problem


def _resolve(host: str, port: int, timeout: float) -> Sequence[tuple[Any, ...]]:
    """The addresses of a name. The system's resolver has no timeout, so a thread of its own asks it."""
    answer: Waiter[Sequence[tuple[Any, ...]] | OSError] = Waiter()

    def ask() -> None:
        try:
            answer.set(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            answer.set(error)

    Task(ask, "quiver-resolve")
    found = answer.wait(timeout)
    if isinstance(found, OSError):
        raise found
    return found or ()
