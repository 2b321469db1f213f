"""Calls from one other worker, begun in the order in which they come."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from quiver.links.request import Handler, PeerRequest, Reply
from quiver.model.errors import NotOwner, QuiverError, ShuttingDown, WorkerUnavailable
from quiver.protocol.packet import NO_CORRELATION

logger = logging.getLogger(__name__)


class MetadataView(Protocol):
    """What a worker knows of topics and groups, and how far that is."""

    @property
    def revision(self) -> int: ...

    async def reached(self, revision: int) -> None:
        """Returns when the view is as far."""
        ...


class NoView:
    """For calls that have nothing to do with metadata."""

    revision = 0

    async def reached(self, revision: int) -> None:
        return


class Gate(Protocol):
    """Whether a worker may do anything for others now."""

    def refusal(self) -> NotOwner | None:
        """Why calls are not begun: they may be repeated where the worker is now."""
        ...

    def explained(self, error: QuiverError) -> QuiverError:
        """What a caller gets for an error, which may have come because the worker has moved."""
        ...


class OpenGate:
    def refusal(self) -> NotOwner | None:
        return None

    def explained(self, error: QuiverError) -> QuiverError:
        return error


class Answers(Protocol):
    """Where the results of calls go."""

    def reply(self, correlation: int, reply: "Reply[Any]") -> None: ...

    def fail(self, correlation: int, error: QuiverError) -> None: ...


class Cancelled(QuiverError):
    """The last word to a caller that no longer waits."""

    code, retryable = "cancelled", True
    sentence = "the caller no longer waits"


Ready = tuple[PeerRequest[Any], Handler]


class _Call(NamedTuple):
    correlation: int
    revision: int
    find: Callable[[], Ready]
    payload: memoryview


class IncomingCalls:
    def __init__(self, caller: str, answers: Answers, view: MetadataView, gate: Gate) -> None:
        self.caller = caller
        self._answers, self._view, self._gate = answers, view, gate
        self._calls: deque[_Call] = deque()
        """Those that were not begun: the view is not as far as the first of them needs it."""
        self._waiting: asyncio.Task[None] | None = None
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._cancellable: dict[int, asyncio.Task[None]] = {}
        self._is_ending = self._is_closed = False

    def take(self, call: _Call, *, needs_view: bool) -> None:
        if not needs_view:
            self._begin(call)
            return
        self._calls.append(call)
        if self._waiting is None:
            self._begin_calls()

    def take_request(
        self, correlation: int, request: PeerRequest[Any], handle: Handler, payload: memoryview, revision: int
    ) -> None:
        """One that has been decoded, or never was encoded."""
        self.take(
            _Call(correlation, revision, partial(_ready, request, handle), payload), needs_view=request.needs_view
        )

    def cancel(self, correlation: int) -> None:
        if (task := self._cancellable.get(correlation)) is not None:
            task.cancel()
            return
        for waiting in self._calls:
            if waiting.correlation == correlation and waiting is not self._calls[0]:
                self._calls.remove(waiting)
                self._fail(correlation, Cancelled())
                return

    def refuse(self) -> None:
        """The gate has closed: those that wait to be begun learn it, and so do callers that only wait."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._begin_calls()
        for task in list(self._cancellable.values()):
            task.cancel()

    def end_waiting(self) -> None:
        """What only waits ends; what was not begun is dropped."""
        self._is_ending = True
        self._calls.clear()
        if self._waiting is not None:
            self._waiting.cancel()
        for task in list(self._cancellable.values()):
            task.cancel()

    async def finish(self, grace_seconds: float) -> None:
        """Ends what only waits, and finishes what was begun, as far as there is time."""
        self.end_waiting()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=grace_seconds)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)  # responses of those that have just ended leave in this turn
        self._is_closed = True

    def _begin_calls(self) -> None:
        while self._calls:
            call = self._calls[0]
            if call.revision > self._view.revision and self._gate.refusal() is None:
                self._waiting = asyncio.get_running_loop().create_task(self._await_revision(call.revision))
                return
            self._calls.popleft()
            self._begin(call)

    async def _await_revision(self, revision: int) -> None:
        try:
            await self._view.reached(revision)
        except QuiverError as error:
            if self._calls:
                self._fail(self._calls.popleft().correlation, error)
        self._waiting = None
        if not self._is_closed:
            self._begin_calls()

    def _begin(self, call: _Call) -> None:
        try:
            if (refusal := self._gate.refusal()) is not None:
                raise refusal
            request, handle = call.find()
        except QuiverError as error:
            self._fail(call.correlation, error)
            return
        task = asyncio.get_running_loop().create_task(
            self._carry_out(call.correlation, request, handle, call.payload)
        )
        self._tasks[task] = call.correlation
        if request.only_waits and call.correlation != NO_CORRELATION:
            self._cancellable[call.correlation] = task
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._cancellable.pop(self._tasks.pop(task), None)

    async def _carry_out(
        self, correlation: int, request: PeerRequest[Any], handle: Handler, payload: memoryview
    ) -> None:
        try:
            reply = await handle(request, payload)
            if correlation != NO_CORRELATION:
                self._answers.reply(correlation, reply)
        except asyncio.CancelledError:
            # What does not only wait is never ended for its caller: something that it needed has stopped here.
            is_asked_for = request.only_waits and not self._is_ending and self._gate.refusal() is None
            self._fail(correlation, Cancelled() if is_asked_for else ShuttingDown())
            raise
        except Exception as error:
            self._failed(correlation, error)

    def _failed(self, correlation: int, error: Exception) -> None:
        if not isinstance(error, QuiverError):
            logger.error("a call of %s failed unexpectedly", self.caller, exc_info=error)
            error = QuiverError()
        elif correlation == NO_CORRELATION:
            logger.info("a call of %s that waits for nothing failed: %s", self.caller, error)
        error = self._gate.explained(error)
        if isinstance(error, NotOwner):  # it was begun: only a call that was not may be repeated by the link
            error = WorkerUnavailable(worker=error.details.get("worker"), problem="has moved to another broker")
        self._fail(correlation, error)

    def _fail(self, correlation: int, error: QuiverError) -> None:
        if correlation != NO_CORRELATION:
            self._answers.fail(correlation, error)


def _ready(request: PeerRequest[Any], handle: Handler) -> Ready:
    return request, handle


def waiting_call(correlation: int, revision: int, find: Callable[[], Ready], payload: memoryview) -> _Call:
    """One whose arguments are decoded when it is begun."""
    return _Call(correlation, revision, find, payload)
