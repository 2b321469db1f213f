"""Which blocking calls may run on the loop."""

import asyncio
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


async def test_a_call_that_may_hold_up_the_loop_runs_there_once_such_calls_are_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, where, problems = ThreadPool(1, "test"), list[int](), list[BaseException | None]()
    may_run = False
    monkeypatch.setattr(QuickCalls, "may_run_on_loop", lambda _: may_run)

    async def call(work: object = None) -> None:
        ended = asyncio.Event()

        def begin() -> None:
            where.append(threading.get_ident())
            if work is not None:
                raise OSError(5, "the test says so")

        def end(error: BaseException | None) -> None:
            problems.append(error)
            ended.set()

        threads.begin(begin, end, may_hold_up_loop=True)
        assert not ended.is_set(), "a later turn"
        await ended.wait()

    await call()
    may_run = True
    await call()
    await call("fails")
    assert [thread == threading.get_ident() for thread in where] == [False, True, True]
    assert problems[:2] == [None, None]
    assert isinstance(problems[2], OSError)
    threads.close()
