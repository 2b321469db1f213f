"""Processes that one process forks and waits for. The simulator and tests pass their own."""

import contextlib
import os
import select
import signal
import struct
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple, Protocol

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_WATCHED = (*_STOP_SIGNALS, signal.SIGCHLD)
_PID = struct.Struct("<i")


class StopRequested(NamedTuple):
    signal_name: str


class ProcessReady(NamedTuple):
    pid: int


class ProcessEnded(NamedTuple):
    pid: int
    status: int
    """The exit status, or minus the number of the signal that killed it."""

    @property
    def description(self) -> str:
        if self.status >= 0:
            return f"ended with status {self.status}"
        try:
            return f"was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was killed by signal {-self.status}"


ProcessEvent = StopRequested | ProcessReady | ProcessEnded


class Parent(Protocol):
    """The process that forked this one."""

    lifeline: int
    """A descriptor that becomes readable when that process is gone."""

    def report_ready(self) -> None: ...


class Processes(Protocol):
    def fork(self, run: Callable[[Parent], int]) -> int:
        """Runs it in a new process, whose exit status it returns; the id of that process."""
        ...

    def next_event(self, timeout_seconds: float | None) -> ProcessEvent | None:
        """Waits for it; None when nothing happened in time. A request to stop comes before what it has caused."""
        ...

    def send_signal(self, pid: int, number: signal.Signals) -> None: ...

    def monotonic(self) -> float: ...


class OsProcesses:
    """Without threads and without an event loop. One per process: it takes SIGTERM, SIGINT and SIGCHLD for itself."""

    def __init__(self) -> None:
        self._lifeline, self._lifeline_end = os.pipe()
        self._ready, self._ready_end = os.pipe()
        self._signals, self._signals_end = os.pipe()
        for fd in (self._signals, self._signals_end, self._ready):
            os.set_blocking(fd, False)
        self._poll = select.poll()
        self._poll.register(self._signals, select.POLLIN)
        self._poll.register(self._ready, select.POLLIN)
        self._events: deque[ProcessEvent] = deque()
        for number in _WATCHED:
            signal.signal(number, _do_nothing)
        signal.set_wakeup_fd(self._signals_end, warn_on_full_buffer=False)

    def fork(self, run: Callable[[Parent], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)  # a signal to the child is not one to this process
        pid = os.fork()
        if pid == 0:
            self._run_child(run)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
        return pid

    def _run_child(self, run: Callable[[Parent], int]) -> None:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number in _STOP_SIGNALS:
                signal.signal(number, _leave)
            for fd in (self._lifeline_end, self._ready, self._signals, self._signals_end):
                os.close(fd)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _WATCHED)
            status = run(_ForkedFrom(self._lifeline, self._ready_end))
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def next_event(self, timeout_seconds: float | None) -> ProcessEvent | None:
        if not self._events:
            self._poll.poll(None if timeout_seconds is None else max(0.0, timeout_seconds) * 1000)
            self._take_signals()
            self._take_ready()
        return self._events.popleft() if self._events else None

    def _take_signals(self) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._signals, 1000)
            self._events.extend(StopRequested(signal.Signals(each).name) for each in numbers if each in _STOP_SIGNALS)
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._events.append(ProcessEnded(ended[0], os.waitstatus_to_exitcode(ended[1])))

    def _take_ready(self) -> None:
        with contextlib.suppress(BlockingIOError):
            pids = os.read(self._ready, 100 * _PID.size)
            self._events.extend(ProcessReady(pid) for (pid,) in _PID.iter_unpack(pids))

    def send_signal(self, pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def monotonic(self) -> float:
        return time.monotonic()


class _ForkedFrom:
    def __init__(self, lifeline: int, ready: int) -> None:
        self.lifeline = lifeline
        self._ready = ready

    def report_ready(self) -> None:
        os.write(self._ready, _PID.pack(os.getpid()))


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """The number is in the pipe."""


def _leave(number: int, frame: FrameType | None) -> None:
    """A signal before the process has its own handlers: nothing is open yet."""
    os._exit(0)
