"""The supervisor's decisions, with processes that exist in a list."""

import logging
import signal
from collections.abc import Callable

import pytest

from quiver.app.workers.supervisor import Supervisor, WorkerState
from quiver.system.processes import Parent, ProcessEnded, ProcessEvent, ProcessReady, StopRequested


class ScriptedProcesses:
    """Events come from a list. Processes that get SIGTERM end with `status_at_stop`, or never when that is None."""

    def __init__(self, *events: ProcessEvent | float) -> None:
        self.events = list(events)
        self.status_at_stop: int | None = 0
        self.forked = 0
        self.signals: list[tuple[int, signal.Signals]] = []
        self.now = 0.0

    def fork(self, run: Callable[[Parent], int]) -> int:
        self.forked += 1
        return self.forked

    def next_event(self, timeout_seconds: float | None) -> ProcessEvent | None:
        while self.events:
            event = self.events.pop(0)
            if not isinstance(event, float):
                return event
            self.now += event
        assert timeout_seconds is not None, "it waits for ever"
        self.now += timeout_seconds
        return None

    def send_signal(self, pid: int, number: signal.Signals) -> None:
        self.signals.append((pid, number))
        if number == signal.SIGKILL:
            self.events.append(ProcessEnded(pid, -9))
        elif self.status_at_stop is not None:
            self.events.append(ProcessEnded(pid, self.status_at_stop))

    def monotonic(self) -> float:
        return self.now


def run(processes: ScriptedProcesses, workers: int = 2) -> tuple[int, list[list[WorkerState]]]:
    changes: list[list[WorkerState]] = []
    supervisor = Supervisor(processes, workers, lambda worker, parent: 0, on_change=changes.append, stop_seconds=10)
    return supervisor.run(), changes


def test_ready_is_when_all_are_ready() -> None:
    processes = ScriptedProcesses(ProcessReady(2), ProcessReady(1), StopRequested("SIGTERM"))
    status, changes = run(processes)
    assert status == 0
    assert changes == [[WorkerState(0, 1, 0), WorkerState(1, 2, 0)]]
    assert processes.signals == [(1, signal.SIGTERM), (2, signal.SIGTERM)]


def test_a_worker_that_ends_is_forked_again(caplog: pytest.LogCaptureFixture) -> None:
    ready = ProcessReady(1), ProcessReady(2)
    processes = ScriptedProcesses(
        *ready, ProcessEnded(2, -11), ProcessReady(2), ProcessReady(3), StopRequested("SIGINT")
    )
    status, changes = run(processes)
    assert status == 0
    assert changes[1:] == [[WorkerState(0, 1, 0), WorkerState(1, 3, 1)]]
    assert "worker 1 (process 2) was killed by SIGSEGV and is started again; 1 of at most 4" in caplog.text


def test_it_gives_up_after_five_ends_within_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    ends = [ProcessEnded(pid, 3) for pid in (2, 3, 4, 5, 6)]
    processes = ScriptedProcesses(*ends)
    assert run(processes)[0] == 1
    assert processes.forked == 6
    assert (
        "worker 1 (process 6) ended with status 3: 5 workers have ended within 60 s; the broker stops" in caplog.text
    )
    assert (1, signal.SIGTERM) in processes.signals


def test_ends_that_are_far_apart_do_not_add_up() -> None:
    events = [each for pid in range(2, 12) for each in (ProcessEnded(pid, 3), 16.0)]
    processes = ScriptedProcesses(*events, StopRequested("SIGTERM"))
    assert run(processes)[0] == 0
    assert processes.forked == 12


def test_a_worker_that_does_not_stop_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    processes = ScriptedProcesses(StopRequested("SIGTERM"), StopRequested("SIGTERM"))
    processes.status_at_stop = None
    assert run(processes)[0] == 1
    assert processes.now == 10
    assert processes.signals[2:] == [(1, signal.SIGKILL), (2, signal.SIGKILL)]
    assert "worker 0 (process 1) has not stopped in time and is killed" in caplog.text
