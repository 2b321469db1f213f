"""Work off the event loop. Everything that blocks (files, searches, compression) runs in a Threads."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads(Protocol):
    """Runs blocking calls, a bounded number at a time, while the loop continues."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the call returns or raises.

        A cancelled caller still waits for a call that has begun, so that its changes are complete when this returns.
        """
        ...

    def close(self) -> None:
        """Accepts no more calls, and returns when those that have begun are done."""
        ...


NewThreads = Callable[[int, str], Threads]
"""Makes Threads: how many run at a time, and a name for them."""


class ThreadPool:
    """Real threads."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix=f"quiver-{name}")

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        job = self._pool.submit(_work, loop, done, call, args, kwargs)
        try:
            return await done
        except asyncio.CancelledError:
            if not job.cancel():
                await _until_done(job)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=True)


class InlineThreads:
    """No threads: the loop runs each call immediately. For tests, and for the simulator's loop."""

    def __init__(self, threads: int = 1, name: str = "inline") -> None:
        self._is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return call(*args, **kwargs)

    def close(self) -> None:
        self._is_closed = True


def _work(
    loop: asyncio.AbstractEventLoop,
    done: "asyncio.Future[T]",
    call: Callable[..., T],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """In the thread. Shorter than `asyncio.wrap_future`, which takes locks and calls on both sides."""
    end: Callable[[], None]
    try:
        end = partial(done.set_result, call(*args, **kwargs))
    except BaseException as error:
        end = partial(done.set_exception, error)
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_unless_done, done, end)


def _unless_done(done: "asyncio.Future[T]", end: Callable[[], None]) -> None:
    if not done.done():
        end()


async def _until_done(job: Future[T]) -> None:
    while not job.done():
        try:
            await asyncio.wait([asyncio.wrap_future(job)])
        except asyncio.CancelledError:
            continue
