"""Which epochs of producers may write here: the process that gives them out knows, and others ask it once."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from quiver.model.errors import UnknownProducer
from quiver.model.limits import PRODUCER_EPOCHS_REMEMBERED
from quiver.partition.partition import Appended
from quiver.structures.ordered_set import OrderedSet

Ask = Callable[[int, int], Awaitable[bool]]
"""Whether an epoch of a producer was given out."""
Append = Callable[[], "asyncio.Future[Appended]"]


class GivenEpochs(Protocol):
    def was_given(self, producer_id: int, epoch: int) -> bool | None:
        """Whether a producer may use an epoch; None: another part knows."""


class ProducerContacts:
    """A frame fences all earlier epochs of its producer, so the broker must have given out its epoch."""

    def __init__(self, transactional: GivenEpochs, others: GivenEpochs) -> None:
        self._transactional, self._others = transactional, others
        self.ask: Ask | None = None
        """Set while the broker is built, if another process gives out epochs."""
        self._known: dict[int, int] = {}
        """The last epoch of each producer that the other process is known to have given out; the newest is last."""
        self._waiting: dict[tuple[int, int], list[tuple[Append, asyncio.Future[Appended]]]] = {}
        """Frames of producers that were not heard of before, in the order in which they came."""
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def was_given(self, producer_id: int, epoch: int) -> bool:
        was_given = self._transactional.was_given(producer_id, epoch)
        return bool(self._others.was_given(producer_id, epoch) if was_given is None else was_given)

    def is_known(self, producer_id: int, epoch: int) -> bool:
        """False: another process must be asked (`append_later`). UnknownProducer."""
        if self.ask is not None:
            return self._known.get(producer_id, -1) >= epoch >= 0
        if not self.was_given(producer_id, epoch):
            raise _unknown(producer_id, epoch)
        return True

    def append_later(self, producer_id: int, epoch: int, append: Append) -> "asyncio.Future[Appended]":
        """Asks, and then appends in the order of the calls; frames of other producers pass."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()
        waiting = self._waiting.get((producer_id, epoch))
        if waiting is None:
            waiting = self._waiting[producer_id, epoch] = []
            task = loop.create_task(self._ask(producer_id, epoch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        waiting.append((append, future))
        return future

    async def _ask(self, producer_id: int, epoch: int) -> None:
        assert self.ask is not None
        error: BaseException | None = None
        try:
            if await self.ask(producer_id, epoch):
                self._note(producer_id, epoch)
            else:
                error = _unknown(producer_id, epoch)
        except BaseException as problem:
            error = problem
            if isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            for append, future in self._waiting.pop((producer_id, epoch)):
                _append(append, future, error)

    def _note(self, producer_id: int, epoch: int) -> None:
        epoch = max(epoch, self._known.pop(producer_id, 0))
        self._known[producer_id] = epoch
        if len(self._known) > PRODUCER_EPOCHS_REMEMBERED:
            del self._known[next(iter(self._known))]


def _unknown(producer_id: int, epoch: int) -> UnknownProducer:
    return UnknownProducer(
        f"epoch {epoch} of producer {producer_id} was not given out by this broker (or is forgotten); the "
        "producer must take a new epoch",
        producer_id=producer_id,
    )


def _append(append: Append, future: "asyncio.Future[Appended]", error: BaseException | None) -> None:
    if error is not None:
        if not future.done():
            future.set_exception(error)
        return
    try:
        appended = append()
    except Exception as problem:
        if not future.done():
            future.set_exception(problem)
        return
    appended.add_done_callback(partial(_end, future))


def _end(future: "asyncio.Future[Appended]", appended: "asyncio.Future[Appended]") -> None:
    if future.done():
        return
    if appended.cancelled():
        future.cancel()
    elif (error := appended.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(appended.result())
