"""Work off the event loop. Whatever blocks (files, searches, compression) takes a Threads and asks it."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Protocol):
    """Runs calls that block, a bounded number at a time, while the loop goes on."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the call returns or raises.

        A caller that is cancelled waits for a call that has begun: what it changes is known when this returns.
        """
        ...

    def close(self) -> None:
        """Takes no more calls, and returns when those that have begun are done."""
        ...


NewThreads = Callable[[int, str], Threads]
"""Makes Threads: how many run at a time, and a name for them."""


class ThreadPool:
    """Real threads."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"quiver-{name}")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        job = self._pool.submit(call, *args, **kwargs)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            await _until_done(job)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class InlineThreads:
    """No threads: the loop runs each call at once. For tests, and for the simulator's loop."""

    def __init__(self, threads: int = 1, name: str = "inline") -> None:
        self._is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return call(*args, **kwargs)

    def close(self) -> None:
        self._is_closed = True


async def _until_done(job: Future[T]) -> None:
    while not job.done():
        try:
            await asyncio.wait([asyncio.wrap_future(job)])
        except asyncio.CancelledError:
            continue


async def settled(future: "asyncio.Future[T]") -> asyncio.CancelledError | None:
    """Waits for a future that others wait for too, also when the caller is cancelled: then returns the cancellation.

    It is for callers that have begun what must be ended first.
    """
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
