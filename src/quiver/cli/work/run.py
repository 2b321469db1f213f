"""Workers in a thread of their own, so that the main thread is free for signals and the status line."""

import abc
import asyncio
import inspect
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import quiver

if TYPE_CHECKING:
    from quiver.client.work.worker_counters import WorkerCounters


class Run(Protocol):
    def start(self) -> None:
        """Raises what keeps the workers from starting."""
        ...

    def stop(self) -> None:
        """No new jobs are begun."""
        ...

    def is_over(self, wait: float) -> bool: ...

    def result(self) -> None:
        """Raises what ended the workers, if they did not just stop."""
        ...

    @property
    def counters(self) -> "WorkerCounters": ...


class _Background(abc.ABC):
    def __init__(self, address: str, handler: Callable[[Any], Any], options: dict[str, Any]) -> None:
        self._address, self._handler, self._options = address, handler, options
        self._thread = threading.Thread(target=self._run, name="quiver-work", daemon=True)
        self._error: BaseException | None = None
        self._started = threading.Event()

    def start(self) -> None:
        self._thread.start()
        self._started.wait()
        self.result()

    def is_over(self, wait: float) -> bool:
        self._thread.join(wait)
        return not self._thread.is_alive()

    def result(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # the main thread raises it
            self._error = error
        finally:
            self._started.set()

    @abc.abstractmethod
    def _work(self) -> None:
        """Connects, says so by `_started`, and works until it is stopped."""


class ThreadRun(_Background):
    """A handler that is a plain function."""

    _client: "quiver.Client | None" = None

    def _work(self) -> None:
        with quiver.connect(self._address) as q:
            q.worker(**self._options)(self._handler)
            self._client = q
            self._started.set()
            q.run_workers()

    def stop(self) -> None:
        assert self._client is not None, "started first"
        self._client.stop_workers()

    @property
    def counters(self) -> "WorkerCounters":
        assert self._client is not None, "started first"
        return self._client.worker_counters


class LoopRun(_Background):
    """A handler that is a coroutine function: it runs in an event loop."""

    _client: "quiver.AsyncClient | None" = None
    _loop: asyncio.AbstractEventLoop | None = None

    def _work(self) -> None:
        asyncio.run(self._work_in_loop())

    async def _work_in_loop(self) -> None:
        async with quiver.connect_async(self._address) as q:
            q.worker(**self._options)(self._handler)
            self._client, self._loop = q, asyncio.get_running_loop()
            self._started.set()
            await q.run_workers()

    def stop(self) -> None:
        assert self._client is not None
        assert self._loop is not None, "started first"
        self._loop.call_soon_threadsafe(self._client.stop_workers)

    @property
    def counters(self) -> "WorkerCounters":
        assert self._client is not None, "started first"
        return self._client.worker_counters


def run_of(address: str, handler: Callable[[Any], Any], options: dict[str, Any]) -> Run:
    """`options` are those of `q.worker`."""
    kind = LoopRun if inspect.iscoroutinefunction(handler) else ThreadRun
    return kind(address, handler, options)
