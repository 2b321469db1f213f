"""Work off the event loop. Everything that blocks (files, searches, compression) runs in a Threads."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, Protocol, TypeVar

from quiver.system.quick_calls import QuickCalls

P = ParamSpec("P")
T = TypeVar("T")
OnEnd = Callable[[BaseException | None], None]


class Threads(Protocol):
    """Runs blocking calls, a bounded number at a time, while the loop continues."""

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the call returns or raises.

        A cancelled caller still waits for a call that has begun, so that its changes are complete when this returns.
        """
        ...

    def begin(self, call: Callable[[], object], on_end: OnEnd) -> None:
        """Begins a call. `on_end` is called on the loop in a later turn, with the error if the call raised one."""
        ...

    def run_at_once(self, call: Callable[[], object]) -> bool:
        """Runs a call on the loop if calls were quick lately and none is under way; False if it was not run.

        For calls that few wait for. Raises what the call raises.
        """
        ...

    def close(self) -> None:
        """Accepts no more calls, and returns when those that have begun are done."""
        ...


NewThreads = Callable[[int, str], Threads]
"""Makes Threads: how many run at a time, and a name for them."""


class ThreadPool:
    """Real threads, each started when there is a call for it. The calls come from one event loop.

    Lighter than `concurrent.futures`, whose futures, locks and conditions cost more than a small write.
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, f"quiver-{name}"
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._unfinished = 0
        self._quick_calls = QuickCalls()
        self._is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        loop, result = asyncio.get_running_loop(), list[T]()
        done: asyncio.Future[None] = loop.create_future()
        queued = _Call(loop, lambda: result.append(call(*args, **kwargs)), partial(_set, done))
        self._put(queued)
        try:
            await done
        except asyncio.CancelledError:
            if not queued.take():
                await queued.ended()
            raise
        return result[0]

    def begin(self, call: Callable[[], object], on_end: OnEnd) -> None:
        self._put(_Call(asyncio.get_running_loop(), call, on_end))

    def run_at_once(self, call: Callable[[], object]) -> bool:
        if self._unfinished or self._is_closed or not self._quick_calls.may_run_on_loop():
            return False
        begun = time.perf_counter()
        try:
            call()
        finally:
            self._quick_calls.took(time.perf_counter() - begun)
        return True

    def _put(self, call: "_Call") -> None:
        if self._is_closed:
            raise RuntimeError("the threads are closed")
        self._unfinished += 1
        if self._unfinished > len(self._threads) < self._most:
            thread = Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put(call)

    def _work(self) -> None:
        """In a thread."""
        while (call := self._calls.get()) is not None:
            if call.take():
                call.work()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                call.loop.call_soon_threadsafe(self._end, call)

    def _end(self, call: "_Call") -> None:
        self._unfinished -= 1
        self._quick_calls.took(call.seconds)
        call.end()

    def close(self) -> None:
        self._is_closed = True
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads:
            thread.join()


class _Call:
    """A call in a thread, and how it ended."""

    __slots__ = ("_call", "_error", "_free", "_on_end", "_waiting", "is_ended", "loop", "seconds")

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], object], on_end: OnEnd) -> None:
        self.loop = loop
        self.seconds = 0.0
        self.is_ended = False
        self._call, self._on_end = call, on_end
        self._error: BaseException | None = None
        self._free = [True]
        self._waiting: asyncio.Future[None] | None = None

    def take(self) -> bool:
        """True once: for the thread that begins it, or for the caller who gives it up before."""
        try:
            return self._free.pop()
        except IndexError:
            return False

    def work(self) -> None:
        begun = time.perf_counter()
        try:
            self._call()
        except BaseException as error:
            self._error = error
        self.seconds = time.perf_counter() - begun

    def end(self) -> None:
        """On the loop."""
        self.is_ended = True
        self._on_end(self._error)
        _set(self._waiting, None)

    async def ended(self) -> None:
        """Returns when it has ended, also to a caller who is cancelled again."""
        while not self.is_ended:
            self._waiting = self.loop.create_future()
            with contextlib.suppress(asyncio.CancelledError):
                await self._waiting


def _set(future: "asyncio.Future[None] | None", error: BaseException | None) -> None:
    if future is None or future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


class InlineThreads:
    """No threads: the loop runs each call immediately. For tests, and for the simulator's loop."""

    def __init__(self, threads: int = 1, name: str = "inline") -> None:
        self._is_closed = False

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._is_closed:
            raise RuntimeError("cannot schedule new futures after shutdown")
        return call(*args, **kwargs)

    def begin(self, call: Callable[[], object], on_end: OnEnd) -> None:
        error: BaseException | None = None
        try:
            call()
        except BaseException as problem:
            error = problem
        asyncio.get_running_loop().call_soon(on_end, error)

    def run_at_once(self, call: Callable[[], object]) -> bool:
        return False

    def close(self) -> None:
        self._is_closed = True
