"""Opening logs in threads: many small ones with few calls."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from quiver.log.segment_log import SegmentLog
from quiver.storage.port import LogOptions
from quiver.system.threads import Threads

_LOGS_PER_CALL = 16
_LONG_SECONDS = 0.02

Open = Callable[[str, LogOptions], SegmentLog]


class _Request:
    __slots__ = ("error", "future", "log_id", "opened", "options")

    def __init__(self, log_id: str, options: LogOptions) -> None:
        self.log_id, self.options = log_id, options
        self.future: asyncio.Future[SegmentLog] = asyncio.get_running_loop().create_future()
        self.opened: SegmentLog | None = None
        self.error: BaseException | None = None


class LogOpener:
    """Ten thousand short logs take one thread half of what eight threads need, which mostly wait for each other. So
    one thread opens all that are asked for; another one begins when a call takes long, as where a long log is checked
    after a kill."""

    def __init__(self, threads: Threads, most: int, open_log: Open) -> None:
        self._threads, self._most, self._open_log = threads, most, open_log
        self._waiting: deque[_Request] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, log_id: str, options: LogOptions) -> SegmentLog:
        """A caller who is cancelled meanwhile waits for the end: nobody else may open the log before."""
        request = _Request(log_id, options)
        self._waiting.append(request)
        if not self._tasks:
            self._begin()
        try:
            return await asyncio.shield(request.future)
        except asyncio.CancelledError:
            await self._give_up(request)
            raise

    async def _give_up(self, request: _Request) -> None:
        if request in self._waiting:
            self._waiting.remove(request)
            return
        while not request.future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([request.future])
        if not request.future.cancelled():
            request.future.exception()  # nobody wants to know

    def _begin(self) -> None:
        if self._waiting and len(self._tasks) < self._most:
            self._tasks.add(asyncio.get_running_loop().create_task(self._run()))

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._open_next()
        except BaseException as error:  # the threads are closed, or everything on this loop is cancelled
            while self._waiting:
                request = self._waiting.popleft()
                if isinstance(error, Exception):
                    request.future.set_exception(error)
                else:
                    request.future.cancel()
            if not isinstance(error, Exception):
                raise
        finally:
            self._tasks.discard(asyncio.current_task())

    async def _open_next(self) -> None:
        helping = asyncio.get_running_loop().call_later(_LONG_SECONDS, self._begin)
        taken: list[_Request] = []
        try:
            await self._threads.run(self._open_some, taken)  # it ends before this does, also when this is cancelled
        finally:
            helping.cancel()
            for request in taken:
                if request.opened is not None:
                    request.future.set_result(request.opened)
                elif request.error is not None:
                    request.future.set_exception(request.error)

    def _open_some(self, taken: list[_Request]) -> None:
        """In a thread. Takes one after the other, so that others can take the rest while one is long."""
        while self._waiting and len(taken) < _LOGS_PER_CALL:
            try:
                request = self._waiting.popleft()
            except IndexError:  # another thread was first
                return
            taken.append(request)
            try:
                request.opened = self._open_log(request.log_id, request.options)
            except BaseException as error:
                request.error = error
