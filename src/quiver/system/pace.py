"""Long work on the event loop in slices, so that others are served meanwhile.

A collection may change while others run: iterate over a copy, and expect that items are gone.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

SLICE_SECONDS = 0.005
AT_ONCE = 16

T = TypeVar("T")
Result = TypeVar("Result")


class Pace:
    """Belongs to one piece of work, which calls `turn` at every step.

    A loop that has `processor_seconds` is asked instead of the processor: in the simulator, work takes its turns at
    the same steps in every run.
    """

    __slots__ = ("_seconds", "_until")

    def __init__(self) -> None:
        self._seconds = getattr(asyncio.get_running_loop(), "processor_seconds", time.perf_counter)
        self._until = self._seconds() + SLICE_SECONDS

    @property
    def is_used_up(self) -> bool:
        """Whether `turn` would let others run: steps that take less than a microsecond ask before they call it."""
        return self._seconds() >= self._until

    async def turn(self) -> None:
        """Lets others run if the slice is used up."""
        if self.is_used_up:
            await asyncio.sleep(0)
            self._until = self._seconds() + SLICE_SECONDS


class ToTheEnd:
    """Work that goes on to its end, even if its caller stops waiting. Then nobody gets its error."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Returns when all of it has ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()


class Turnstile:
    """Lets a few tasks through at each turn of the loop, in the order of arrival.

    For tasks that are all woken by one event, and do a little work each.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._entered = 0
        self._is_turning = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        if self._entered >= self._at_once or self._waiting:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
            return
        self._entered += 1
        self._turn_later()

    def _turn_later(self) -> None:
        if not self._is_turning:
            self._is_turning = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._entered, self._is_turning = 0, False
        while self._waiting and self._entered < self._at_once:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                self._entered += 1
        if self._entered:
            self._turn_later()


async def paced(items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one; others get turns in between."""
    pace = Pace()
    for item in items:
        await pace.turn()
        yield item


async def bounded_gather(
    work: Callable[[T], Awaitable[Result]], items: Iterable[T], *, at_once: int = AT_ONCE
) -> list[Result]:
    """What `work` returns for each item, in their order; at most `at_once` run at a time, however many there are.

    The first error ends all of them and is raised.
    """
    results: dict[int, Result] = {}
    waiting, pace = enumerate(items), Pace()

    async def take_turns() -> None:
        for place, item in waiting:
            await pace.turn()
            results[place] = await work(item)

    workers = [asyncio.get_running_loop().create_task(take_turns()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    return [results[place] for place in sorted(results)]
