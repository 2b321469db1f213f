"""Which thread receives from the socket of a connection: one that waits for an answer, or a thread of its own."""

import contextlib
import io
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

_T_co = TypeVar("_T_co", covariant=True)
_T = TypeVar("_T")
_LOOK_SECONDS = 1.0
"""How long an answer may lie in the socket that nobody waits for and nobody asked the thread to receive."""
_LARGE_BYTES = 64 * 1024
"""What is missing of a packet: more than this is received with one call, by the thread."""
_RECEIVER = 0
_NO_BUFFER = memoryview(b"")
_COUNT_BYTES = (1).to_bytes(8, "little")


class Gate(Protocol[_T_co]):
    """What is waited for. Whoever sets it calls `on_set` afterwards."""

    on_set: Callable[[], None] | None

    @property
    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None) -> _T_co: ...


class Incoming(Protocol):
    """Takes in what is received; called by one thread at a time."""

    @property
    def has_requests(self) -> bool:
        """Whether answers are still to come."""
        ...

    def get_buffer(self) -> memoryview:
        """Where the next bytes go."""
        ...

    def received(self, count: int) -> None:
        """So many bytes lie in the buffer; 0: the other side has closed the connection."""
        ...

    def receiving_failed(self, error: BaseException) -> None:
        """Nothing more can be received."""
        ...


class WakeUp:
    """A descriptor that is readable once it was set: wakes a thread that polls."""

    __slots__ = ("_file",)

    def __init__(self) -> None:
        # A file object, because one that is closed refuses to be written to, whoever has its number now.
        self._file = io.FileIO(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC), "r+")

    def fileno(self) -> int:
        return self._file.fileno()

    def set(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it is closed: nobody polls
            self._file.write(_COUNT_BYTES)

    def clear(self) -> None:
        self._file.read(len(_COUNT_BYTES))

    def close(self) -> None:
        self._file.close()


class SocketReader:
    """One thread receives at a time, and takes in the answers of all requests.

    A thread that waits for an answer receives it itself when nobody else receives, so it wakes up once, with its
    answer. What nobody waits for is left to a thread of the connection's own, which also notices the end of an idle
    connection. Whoever stops receiving looks afterwards whether answers are still to come, and whoever sends without
    waiting looks afterwards whether somebody receives: one of the two sees the other, and the thread is woken.

    An interrupt (Ctrl-C) may end `wait` at any point. `_receiver` names the thread that receives from the moment it
    does, in one step: a thread that was interrupted before it could give that up gives it up with its next `wait`.
    """

    def __init__(self, sock: socket.socket, incoming: Incoming, name: str) -> None:
        self._socket = sock
        self._incoming = incoming
        self._receiver: dict[int, int] = {}
        """The id of the thread that receives, if one does."""
        self._waiting_wake, self._thread_wake = WakeUp(), WakeUp()
        self._arrivals, self._quiet = select.poll(), select.poll()
        self._arrivals.register(sock, select.POLLIN)
        self._arrivals.register(self._waiting_wake, select.POLLIN)
        self._quiet.register(sock, select.POLLRDHUP)
        self._quiet.register(self._thread_wake, select.POLLIN)
        self._is_left_to_callers = False
        """The thread receives no longer than there are answers to come."""
        self._turns = 0
        """How often a thread that waits has polled."""
        self._is_taking_in = False
        self._is_over = self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def expect(self) -> None:
        """A request was sent that nobody waits for: makes sure that its answer is received."""
        self._is_left_to_callers = False
        if not self._receiver:
            self._thread_wake.set()

    def wait(self, gate: Gate[_T], timeout: float | None) -> _T:
        """As `gate.wait`; what arrives meanwhile is received by this thread, unless another one does that."""
        if gate.is_set:
            return gate.wait(0)
        self._is_left_to_callers = True
        this_thread = threading.get_ident()
        if self._is_taking_in and self._receiver.get(_RECEIVER) == this_thread:
            return gate.wait(timeout)  # a callback waits: nothing arrives before it has returned
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            if self._receiver.setdefault(_RECEIVER, this_thread) == this_thread:
                gate.on_set = self._wake_waiting
                self._receive_until(gate, deadline)
        finally:
            if self._receiver.get(_RECEIVER) == this_thread:
                gate.on_set = None
                self._stop_receiving()
        return gate.wait(None if deadline is None else deadline - time.monotonic())

    def end(self) -> None:
        """Nothing more is received. The socket was shut down before."""
        self._is_over = True
        self._thread_wake.set()

    def join(self, timeout: float | None) -> None:
        """Returns when the thread has ended, after `end` or the end of the connection."""
        if threading.current_thread() is not self._thread and self._thread.ident is not None:
            self._thread.join(timeout)

    def close(self) -> None:
        """After `end` and `join`: closes the socket, or leaves that to the thread that is just receiving."""
        self._is_closing = True
        this_thread = threading.get_ident()
        if self._receiver.setdefault(_RECEIVER, this_thread) == this_thread:
            self._socket.close()
            self._waiting_wake.close()
            self._thread_wake.close()

    def after_fork(self) -> None:
        """In the child: nobody receives there. Only descriptors are closed, the parent still uses the socket."""
        self._is_over, self._receiver = True, {}
        self.close()

    def _receive_until(self, gate: Gate[_T], deadline: float | None) -> None:
        poll, sock = self._arrivals.poll, self._socket.fileno()
        while not gate.is_set and not self._is_over:
            buffer = self._next_buffer()
            if len(buffer) > _LARGE_BYTES:
                return
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            self._turns += 1
            for descriptor, _ in poll(None if left is None else left * 1000):
                if descriptor == sock:
                    self._receive(buffer, socket.MSG_DONTWAIT)
                else:
                    self._waiting_wake.clear()

    def _wake_waiting(self) -> None:
        """The gate was set: wakes the thread that polls, unless it has set the gate itself."""
        if self._receiver.get(_RECEIVER) != threading.get_ident():
            self._waiting_wake.set()

    def _stop_receiving(self) -> None:
        self._receiver.pop(_RECEIVER, None)
        if self._is_closing:
            self.close()
        elif self._incoming.has_requests:
            self._thread_wake.set()

    def _next_buffer(self) -> memoryview:
        try:
            return self._incoming.get_buffer()
        except Exception as error:
            self._incoming.receiving_failed(error)
            return _NO_BUFFER

    def _receive(self, buffer: memoryview, flags: int) -> None:
        self._is_taking_in = True
        try:
            self._incoming.received(self._socket.recv_into(buffer, len(buffer), flags))
        except (BlockingIOError, InterruptedError):
            return
        except BaseException as error:
            self._incoming.receiving_failed(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._is_taking_in = False

    def _run(self) -> None:
        """The thread: receives what nobody waits for, and notices the end of the connection."""
        this_thread = threading.get_ident()
        is_needed, is_hung_up = True, False
        while not self._is_over:
            if is_needed and self._receiver.setdefault(_RECEIVER, this_thread) == this_thread:
                try:
                    self._receive_all(is_hung_up)
                finally:
                    self._stop_receiving()
            if self._is_over:
                return
            turns = self._turns
            ready = [descriptor for descriptor, _ in self._quiet.poll(_LOOK_SECONDS * 1000)]
            is_needed = bool(ready) or is_hung_up or (self._incoming.has_requests and turns == self._turns)
            for descriptor in ready:
                if descriptor == self._thread_wake.fileno():
                    self._thread_wake.clear()
                else:  # whoever receives at the moment finds that out too; if it does not, the thread looks again
                    is_hung_up = True
                    self._quiet.unregister(descriptor)

    def _receive_all(self, is_hung_up: bool) -> None:
        incoming = self._incoming
        while not self._is_over and (incoming.has_requests or is_hung_up or not self._is_left_to_callers):
            buffer = self._next_buffer()
            if not self._is_over:
                self._receive(buffer, socket.MSG_WAITALL if len(buffer) > _LARGE_BYTES else 0)
