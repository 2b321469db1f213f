"""One writer per log: whatever wants to change a log queues here and is done one after the other."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from quiver.model.errors import ShuttingDown
from quiver.records.header import StampedFrame
from quiver.storage.port import Log

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")
OnEnd = Callable[[Exception | None], None]
Rest = Callable[[], Awaitable[None]]
"""What is left to do, in a task."""


class Queued(Generic[Item]):
    __slots__ = ("item", "size")

    def __init__(self, item: Item, size: int) -> None:
        self.item = item
        self.size = size


class SerialWriter(Generic[Item]):
    """Hands queued items to `write` in batches, and runs exclusive operations between the batches.

    While one batch is being written the next one gathers, so a slow disk makes batches larger, not queues longer:
    this is what group commit rests on.

    `write` does what it can at once. It returns True when all is written, a function that does the rest in a task, or
    False when it has begun something after which it calls `release`. An owner that writes something by itself has
    the writer held meanwhile (`hold`, `release`).
    """

    def __init__(self, write: Callable[[list[Item]], Rest | bool], *, batch_bytes: int) -> None:
        self._write = write
        self._batch_bytes = batch_bytes
        self._items: deque[Queued[Item]] = deque()
        self._operations: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._idle: asyncio.Future[None] | None = None
        """What `drain` waits for."""
        self.is_idle = True
        """Nothing is queued and nothing is being written."""
        self.queued_bytes = 0

    def hold(self, rest: Rest | bool = False) -> None:
        """While it is idle: the owner has begun to write something by itself, and `rest` is what `write` returns.

        Nothing else is written until that is done.
        """
        if rest is True:
            return
        self.is_idle = False
        if rest is not False:
            self._task = asyncio.get_running_loop().create_task(self._run(rest))

    def release(self) -> None:
        """What was begun is written: continues with what came meanwhile."""
        if self._items or self._operations or self._idle is not None:
            self._continue()
        else:
            self.is_idle = True

    def append(
        self, log: Log, frames: Sequence[StampedFrame], on_end: OnEnd, *, sync: bool = True, alone: bool = False
    ) -> Rest | bool:
        """What `write` does to append frames to a log, and returns: without a task where that is possible.

        Calls `on_end` when they are appended, or with the error.
        """
        error: Exception | None = None
        try:
            if frames and not log.append_at_once(frames, sync=sync):
                if sync and log.begin_append(frames, partial(self._end_append, on_end)):
                    return False
                return partial(append_and_wait, log, frames, on_end, sync=sync, alone=alone)
        except Exception as problem:
            error = problem
        on_end(error)
        return True

    def _end_append(self, on_end: OnEnd, error: Exception | None) -> None:
        try:
            on_end(error)
        finally:
            self.release()

    def submit(self, item: Item, size: int) -> "Queued[Item]":
        """Queues an item; `write` gets it together with its neighbours and resolves each of them."""
        queued = Queued(item, size)
        self._items.append(queued)
        self.queued_bytes += size
        self._start()
        return queued

    def enlarge(self, queued: "Queued[Item]", size: int) -> None:
        """An item that `write` has not got yet has grown."""
        queued.size += size
        self.queued_bytes += size

    async def exclusive(self, operation: Callable[[], Awaitable[Result]]) -> Result:
        """Runs an operation while nothing is being written, and returns what it returns."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._operations.append((operation, future))
        self._start()
        return await future

    async def drain(self) -> None:
        """Returns when everything queued so far has been written."""
        while not self.is_idle:
            if self._idle is None:
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)

    def let_go(self) -> None:
        """Nothing more is written: the owner is not referred to any more, so that it is freed at once."""
        self._write = _nothing

    def _start(self) -> None:
        """What else comes in this turn of the loop is in the same batch."""
        if self.is_idle:
            self.is_idle = False
            asyncio.get_running_loop().call_soon(self._continue)

    def _continue(self) -> None:
        while self._operations or self._items:
            if self._operations:
                rest: Rest | bool = partial(_operate, *self._operations.popleft())
            else:
                rest = self._begin_write()
            if rest is not True:
                self.hold(rest)
                return
        self._become_idle()

    def _become_idle(self) -> None:
        self.is_idle = True
        idle, self._idle = self._idle, None
        if idle is not None and not idle.done():
            idle.set_result(None)

    def _begin_write(self) -> Rest | bool:
        try:
            return self._write(self._take())
        except Exception:  # what is queued after it must be written all the same
            logger.exception("a batch was not written to its end")
            return True

    async def _run(self, rest: Rest) -> None:
        try:
            await rest()
        except Exception:
            logger.exception("a batch was not written to its end")
        except asyncio.CancelledError:  # the loop ends
            self._become_idle()
            raise
        self._task = None
        self._continue()

    def _take(self) -> list[Item]:
        batch: list[Item] = []
        total = 0
        while self._items and (not batch or total + self._items[0].size <= self._batch_bytes):
            queued = self._items.popleft()
            batch.append(queued.item)
            total += queued.size
        self.queued_bytes -= total
        return batch


async def _operate(operation: Callable[[], Awaitable[Any]], future: "asyncio.Future[Any]") -> None:
    try:
        result = await operation()
    except Exception as error:
        if not future.done():
            future.set_exception(error)
    else:
        if not future.done():
            future.set_result(result)


async def append_and_wait(
    log: Log, frames: Sequence[StampedFrame], on_end: OnEnd, *, sync: bool = True, alone: bool = False
) -> None:
    """As `SerialWriter.append`, in a task."""
    error: Exception | None = None
    try:
        if frames:
            await log.append(frames, sync=sync, alone=alone)
    except Exception as problem:
        error = problem
    on_end(error)


def _nothing(batch: list[Any]) -> bool:
    raise ShuttingDown()
