"""Calls that run off the loop."""

import asyncio
import threading

import pytest

from quiver.system.threads import InlineThreads, NewThreads, ThreadPool


@pytest.fixture(params=[ThreadPool, InlineThreads])
def new_threads(request: pytest.FixtureRequest) -> NewThreads:
    made: NewThreads = request.param
    return made


async def test_a_call_returns_or_raises(new_threads: NewThreads) -> None:
    threads = new_threads(1, "test")
    assert await threads.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await threads.run(divmod, 7, 0)
    threads.close()


async def test_after_the_end_it_takes_no_calls(new_threads: NewThreads) -> None:
    threads = new_threads(1, "test")
    threads.close()
    with pytest.raises(RuntimeError):
        await threads.run(divmod, 7, 2)


async def test_whoever_is_cancelled_waits_for_a_call_that_has_begun() -> None:
    threads, begun, may_end = ThreadPool(1, "test"), threading.Event(), threading.Event()
    done = []

    def call() -> None:
        begun.set()
        may_end.wait(10)
        done.append(True)

    waiting = asyncio.create_task(threads.run(call))
    await asyncio.to_thread(begun.wait, 10)
    waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done
    threads.close()
