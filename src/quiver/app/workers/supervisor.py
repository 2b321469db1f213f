"""The process that forks the workers and forks again when one ends. It has no event loop and no threads."""

import logging
import signal
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from quiver.system.processes import Parent, ProcessEnded, Processes, ProcessReady, StopRequested

_log = logging.getLogger(__name__)


class DeathLimit(NamedTuple):
    """So many ends of workers within so long, and the supervisor gives up."""

    ends: int = 5
    seconds: float = 60.0


class WorkerState(NamedTuple):
    worker: int
    pid: int
    restarts: int


OnChange = Callable[[list[WorkerState]], None]
"""Gets all workers whenever all of them are ready: first, and again after one was started again."""


class Supervisor:
    """`run_worker` runs in a forked process, with the number of the worker."""

    def __init__(
        self,
        processes: Processes,
        workers: int,
        run_worker: Callable[[int, Parent], int],
        *,
        on_change: OnChange,
        stop_seconds: float,
        limit: DeathLimit = DeathLimit(),  # noqa: B008 - a value
    ) -> None:
        self._processes, self._run_worker = processes, run_worker
        self._on_change, self._stop_seconds, self._limit = on_change, stop_seconds, limit
        self._workers: dict[int, int] = {}
        """By process id."""
        self._count = workers
        self._restarts = [0] * workers
        self._ready: set[int] = set()
        self._deaths: deque[float] = deque()

    def run(self) -> int:
        """Returns the exit status, when all workers have ended."""
        for worker in range(self._count):
            self._fork(worker)
        while True:
            event = self._processes.next_event(None)
            if isinstance(event, StopRequested):
                _log.info("%s: stopping", event.signal_name)
                return 0 if self._stop() else 1
            if isinstance(event, ProcessReady):
                self._on_ready(event.pid)
            elif isinstance(event, ProcessEnded) and not self._start_again(event):
                self._stop()
                return 1

    def _fork(self, worker: int) -> None:
        pid = self._processes.fork(lambda parent: self._run_worker(worker, parent))
        self._workers[pid] = worker

    def _on_ready(self, pid: int) -> None:
        if pid in self._workers:
            self._ready.add(pid)
            if len(self._ready) == self._count:
                self._on_change(self._states())

    def _states(self) -> list[WorkerState]:
        by_worker = sorted((worker, pid) for pid, worker in self._workers.items())
        return [WorkerState(worker, pid, self._restarts[worker]) for worker, pid in by_worker]

    def _start_again(self, ended: ProcessEnded) -> bool:
        """False when too many have ended."""
        worker = self._workers.pop(ended.pid, None)
        if worker is None:
            return True
        self._ready.discard(ended.pid)
        now = self._processes.monotonic()
        while self._deaths and self._deaths[0] <= now - self._limit.seconds:
            self._deaths.popleft()
        self._deaths.append(now)
        deaths, within = len(self._deaths), f"{self._limit.seconds:g} s"
        if deaths >= self._limit.ends:
            _log.error(
                "worker %d (process %d) %s: %d workers have ended within %s; the broker stops",
                worker, ended.pid, ended.description, deaths, within,
            )  # fmt: skip
            return False
        _log.error(
            "worker %d (process %d) %s and is started again; %d of at most %d ends within %s",
            worker, ended.pid, ended.description, deaths, self._limit.ends - 1, within,
        )  # fmt: skip
        self._restarts[worker] += 1
        self._fork(worker)
        return True

    def _stop(self) -> bool:
        """Whether all have ended with status 0, and in time; those that have not are killed."""
        for pid in self._workers:
            self._processes.send_signal(pid, signal.SIGTERM)
        deadline, is_clean, is_killed = self._processes.monotonic() + self._stop_seconds, True, False
        while self._workers:
            left = None if is_killed else deadline - self._processes.monotonic()
            event = self._processes.next_event(left)
            if isinstance(event, ProcessEnded):
                worker = self._workers.pop(event.pid, None)
                if worker is not None and event.status != 0:
                    is_clean = False
                    _log.error("worker %d (process %d) %s", worker, event.pid, event.description)
            elif event is None and not is_killed:
                is_killed = True
                for pid, worker in self._workers.items():
                    _log.error("worker %d (process %d) has not stopped in time and is killed", worker, pid)
                    self._processes.send_signal(pid, signal.SIGKILL)
        return is_clean
