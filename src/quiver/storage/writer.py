"""One writer per log: whatever wants to change a log queues here and is done one after the other."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from quiver.model.errors import ShuttingDown

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


class Queued(Generic[Item]):
    __slots__ = ("item", "size")

    def __init__(self, item: Item, size: int) -> None:
        self.item = item
        self.size = size


class SerialWriter(Generic[Item]):
    """Hands queued items to `write` in batches, and runs exclusive operations between the batches.

    While one batch is being written the next one gathers, so a slow disk makes batches larger, not queues longer:
    this is what group commit rests on. There is no task while there is nothing to do.

    An owner that writes something by itself, without a task, has it held meanwhile (`hold`, `release`).
    """

    def __init__(self, write: Callable[[list[Item]], Awaitable[None]], *, batch_bytes: int) -> None:
        self._write = write
        self._batch_bytes = batch_bytes
        self._items: deque[Queued[Item]] = deque()
        self._operations: deque[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._released: asyncio.Future[None] | None = None
        """What `drain` waits for while it is held."""
        self.is_idle = True
        """Nothing is queued and nothing is being written."""
        self.queued_bytes = 0

    def hold(self) -> None:
        """While it is idle: the owner writes something by itself, and nothing else is written until `release`."""
        self.is_idle = False

    def release(self) -> None:
        self.is_idle = True
        released, self._released = self._released, None
        if released is not None and not released.done():
            released.set_result(None)
        if self._items or self._operations:
            self._start()

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
            if self._task is not None:
                await asyncio.shield(self._task)
            else:
                if self._released is None:
                    self._released = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._released)

    def let_go(self) -> None:
        """Nothing more is written: the owner is not referred to any more, so that it is freed at once."""
        self._write = _nothing

    def _start(self) -> None:
        if self.is_idle:
            self.is_idle = False
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._items or self._operations:
                while self._operations:
                    await self._operate(*self._operations.popleft())
                if self._items:
                    await self._write_next()
        finally:
            self._task = None
            self.is_idle = True

    async def _write_next(self) -> None:
        try:
            await self._write(self._take())
        except Exception:  # what is queued after it must be written all the same
            logger.exception("a batch was not written to its end")

    def _take(self) -> list[Item]:
        batch: list[Item] = []
        total = 0
        while self._items and (not batch or total + self._items[0].size <= self._batch_bytes):
            queued = self._items.popleft()
            batch.append(queued.item)
            total += queued.size
        self.queued_bytes -= total
        return batch

    @staticmethod
    async def _operate(operation: Callable[[], Awaitable[Any]], future: "asyncio.Future[Any]") -> None:
        try:
            result = await operation()
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)


async def _nothing(batch: list[Any]) -> None:
    raise ShuttingDown()
