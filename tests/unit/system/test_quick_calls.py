"""Which blocking calls may run on the loop."""

import threading
import time

import pytest

from quiver.system.quick_calls import QUICK_SECONDS, QuickCalls
from quiver.system.threads import ThreadPool


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The loop's processor time, and the time: a second later at each look."""
    now, worked = iter(range(1, 10_000)), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(now)))
    monkeypatch.setattr(time, "thread_time", lambda: worked[0])
    return worked


def quick(calls: QuickCalls, count: int) -> None:
    for _ in range(count):
        calls.took(QUICK_SECONDS / 2)


def test_calls_may_run_on_the_loop_after_they_have_been_quick_for_a_while(worked: list[float]) -> None:
    calls = QuickCalls()
    assert not calls.may_run_on_loop()
    quick(calls, 30)
    assert not calls.may_run_on_loop()
    quick(calls, 30)
    assert calls.may_run_on_loop()
    calls.took(40 * QUICK_SECONDS)
    assert not calls.may_run_on_loop(), "a slow one sends those after it to the thread"
    quick(calls, 75)
    assert calls.may_run_on_loop()


def test_a_loop_that_is_busy_is_not_held_up(worked: list[float]) -> None:
    calls = QuickCalls()
    quick(calls, 100)
    assert calls.may_run_on_loop()
    worked[0] += 0.7
    assert not calls.may_run_on_loop()
    worked[0] += 0.1
    assert calls.may_run_on_loop()


def test_a_call_runs_on_the_loop_once_such_calls_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, where = ThreadPool(1, "test"), list[int]()
    may_run = False
    monkeypatch.setattr(QuickCalls, "may_run_on_loop", lambda _: may_run)

    def fail() -> None:
        raise OSError(5, "the test says so")

    assert not threads.run_at_once(lambda: where.append(threading.get_ident()))
    may_run = True
    assert threads.run_at_once(lambda: where.append(threading.get_ident()))
    with pytest.raises(OSError, match="the test says so"):
        threads.run_at_once(fail)
    assert where == [threading.get_ident()]
    threads.close()
    assert not threads.run_at_once(fail), "begin says that the threads are closed"
