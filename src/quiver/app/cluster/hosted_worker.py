"""One worker, which this broker runs whenever it is assigned to it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from quiver.app.cluster.assignments import Assignments, HostedStorage, OpenStorage
from quiver.app.cluster.gate import WorkerGate
from quiver.cluster.ownership import Assignment
from quiver.model.errors import NotLeader, NotOwner, QuiverError
from quiver.routing.worker import Worker
from quiver.system.backoff import Backoff

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""Changes of assignments wake it; whether its logs were taken over is looked at this often."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 5.0
_STOP_SECONDS, _DROP_SECONDS = 8.0, 3.0
_GRACE_SECONDS = 0.5
_FINISH_SECONDS = 1.0

NewWorker = Callable[[int, HostedStorage, WorkerGate], Worker]


class Running:
    """A worker that runs here, or is being started."""

    def __init__(self, worker: Worker, storage: HostedStorage, gate: WorkerGate, assignment: Assignment) -> None:
        self.worker, self.storage, self.gate, self.assignment = worker, storage, gate, assignment

    async def stop(self) -> bool:
        """What was accepted is finished; callers of what was not begun ask the next owner. False: the storage could
        not be closed, so it may keep what is not stored yet."""
        self._close_gate()
        await _within(_STOP_SECONDS, "stopping", self.worker.local.stop)
        await self.worker.peers.close(_GRACE_SECONDS)
        return await _within(_DROP_SECONDS, "closing", self.storage.close)

    async def drop(self) -> None:
        """Another broker may run it already: nothing is written any more."""
        self._close_gate()
        await self.storage.discard()
        await _within(_DROP_SECONDS, "dropping", self.worker.local.stop)
        await self.worker.peers.close(0)
        await self.storage.discard()  # what was opened meanwhile

    def _close_gate(self) -> None:
        self.gate.is_closed = True
        self.worker.peers.refuse_calls()


class HostedWorker:
    def __init__(
        self,
        number: int,
        node: str,
        assignments: Assignments,
        open_storage: OpenStorage,
        new_worker: NewWorker,
        may_serve: Callable[[], bool],
    ) -> None:
        self.number, self._node, self._assignments = number, node, assignments
        self._open_storage, self._new_worker, self._may_serve = open_storage, new_worker, may_serve
        self._running: Running | None = None
        self._unclosed: HostedStorage | None = None
        """Of a worker that has stopped: it is closed before the worker runs again, here or elsewhere."""
        self._task: asyncio.Task[None] | None = None
        self._is_stopping = False
        self.problem: Exception | None = None
        """Why it could not be started."""
        self.on_change: Callable[[], None] = lambda: None

    @property
    def running(self) -> Worker | None:
        """Where calls to it go; None while it does not run here."""
        running = self._running
        return None if running is None or running.gate.refusal() is not None else running.worker

    @property
    def is_assigned(self) -> bool:
        assignment = self._assignments.of(self.number)
        return assignment is not None and assignment.node == self._node and not assignment.next_node

    async def start(self) -> None:
        """Starts it if it is to run here, and follows its assignment from then on. Raises why it cannot start."""
        await self._follow()
        if self.problem is not None:
            raise self.problem
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self, *, drops: bool = False) -> None:
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await (self._drop_running() if drops else self._stop_running())

    async def _run(self) -> None:
        backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        while True:
            changed, seconds = self._assignments.changed, _LOOK_SECONDS
            following = asyncio.ensure_future(self._follow())
            try:
                await asyncio.shield(following)
            except asyncio.CancelledError:  # what was begun is finished, unless it waits for others that are gone
                await asyncio.wait([following], timeout=_FINISH_SECONDS)
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)
                raise
            if self.problem is None:
                backoff.reset()
            else:
                seconds = backoff.next_seconds()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await changed.wait()

    async def _follow(self) -> None:
        """One step towards what the assignment says."""
        try:
            await self._follow_assignment()
            self.problem = None
        except (NotLeader, NotOwner):  # the assignment has changed meanwhile
            self.problem = None
        except Exception as error:
            if self.problem is None or str(self.problem) != str(error):
                _log.error(
                    "worker %d cannot run here: %s", self.number, error, exc_info=not isinstance(error, QuiverError)
                )
            self.problem = error

    async def _follow_assignment(self) -> None:
        assignment, running = self._assignments.of(self.number), self._running
        is_here = assignment is not None and assignment.node == self._node
        if running is not None and (
            assignment is None or not is_here or _start_of(assignment) != _start_of(running.assignment)
        ):
            _log.warning("worker %d is dropped: its assignment is %s", self.number, assignment)
            await self._drop_running()
        elif running is not None and running.storage.is_taken_over:
            _log.warning("worker %d is started again: another broker has opened its logs", self.number)
            await self._drop_running()
        if self._is_stopping:
            return
        if assignment is None or not is_here:
            await self._discard_rest()
            return
        await self._close_rest()
        if assignment.next_node:
            await self._stop_running()
            await self._close_rest()
            await self._assignments.hand_over(self.number, assignment)
        elif self._running is None:
            await self._start(assignment)

    async def _start(self, assignment: Assignment) -> None:
        storage = await self._open_storage(self.number, assignment)
        claimed = self._assignments.of(self.number)
        if claimed is None or claimed.node != self._node:
            await storage.discard()
            raise NotOwner(worker=self.number)
        gate = WorkerGate(self.number, self._may_serve, lambda: storage.is_taken_over)
        running = Running(self._new_worker(self.number, storage, gate), storage, gate, claimed)
        try:
            await running.worker.start()
        except BaseException:
            await running.drop()
            raise
        self._running = running
        _log.info("worker %d runs here", self.number)
        self.on_change()

    async def _stop_running(self) -> None:
        running = self._running
        if running is not None:
            self._unclosed = None if await running.stop() else running.storage
            self._running = None
            _log.info("worker %d has stopped here", self.number)

    async def _close_rest(self) -> None:
        """Raises an error while that cannot be done, as when the database is away."""
        if self._unclosed is not None:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._unclosed.close()
            self._unclosed = None

    async def _discard_rest(self) -> None:
        unclosed, self._unclosed = self._unclosed, None
        if unclosed is not None:
            await unclosed.discard()

    async def _drop_running(self) -> None:
        running = self._running
        if running is not None:
            await running.drop()
            self._running = None


def _start_of(assignment: Assignment) -> tuple[str, int, int]:
    return assignment.node, assignment.epoch, assignment.start_epoch


async def _within(seconds: float, what: str, end: Callable[[], "asyncio.Future[None] | object"]) -> bool:
    """Whether it has ended well. A failure or a timeout is logged: what was not closed in time is fenced."""
    try:
        async with asyncio.timeout(seconds):
            await end()  # type: ignore[misc]
        return True
    except TimeoutError:
        _log.error("%s a worker did not end within %.1f s", what, seconds)
    except Exception as error:
        _log.warning("%s a worker: %s", what, error)
    return False
