"""Handlers that are called with jobs, several at a time."""

import inspect
import logging

from quiver.client._async.work.job import GIVEN_BACK, AsyncJob
from quiver.client._async.work.work import AsyncWork
from quiver.client._backend_async import RUNS_COROUTINES, Signal, Task, finished
from quiver.client.work.key_queues import KeyQueues
from quiver.client.work.reject import Reject
from quiver.client.work.worker_counters import WorkerCounters, total
from quiver.client.work.worker_definition import Handler
from quiver.model.errors import InvalidRequest, LeaseLost

_logger = logging.getLogger("quiver.worker")


class AsyncWorker:
    """A handler with its share of a queue group. Messages of one key stay in order if the group is ordered."""

    def __init__(self, work: AsyncWork, handler: Handler, concurrency: int) -> None:
        self._work = work
        self._handler = handler
        self._counters = [WorkerCounters() for _ in range(concurrency)]
        self._tasks: list[Task] = []
        self._queues: KeyQueues[AsyncJob] = KeyQueues()
        self._over = Signal()
        self._free: list[WorkerCounters] = []
        self.error: Exception | None = None

    @property
    def counters(self) -> WorkerCounters:
        return total(self._counters)

    async def start(self, over: Signal) -> None:
        """`over` is set when there will be no more jobs because of an error."""
        self._over = over
        await self._work.open()
        self._free = list(self._counters)
        self._tasks = [Task(self._serve, "quiver-worker") for _ in self._counters]

    def stop(self) -> None:
        """Running handlers may finish; no new ones start."""
        self._work.stop()

    async def close(self) -> None:
        """Waits for the running handlers, then gives back jobs that were not started and settles the rest."""
        self.stop()
        for task in self._tasks:
            await task.join()
        self._work.give_back(self._queues.clear())
        await self._work.close()

    async def _serve(self) -> None:
        counters = self._free.pop()
        try:
            job = await self._next(counters)
            while job is not None:
                await self._handle(job, counters)
                self._work.check_fork()
                job = self._next_of_key(job) or await self._next(counters)
        except Exception as error:
            self.error = self.error or error
            self._over.set()
        finally:
            counters.in_flight = 0

    async def _next(self, counters: WorkerCounters) -> AsyncJob | None:
        """A job that may be handled now; None at the end."""
        while True:
            ready = self._work.ready_job
            job = self._queues.next_of(ready) if self._work.is_ordered else ready()
            if job is not None:
                return job
            try:
                if not await self._work.refill():
                    return None
            except LeaseLost as error:
                _note_loss(error, counters)

    def _next_of_key(self, job: AsyncJob) -> AsyncJob | None:
        if not self._work.is_ordered:
            return None
        if job.state == GIVEN_BACK:  # and with it what was leased after it
            for gone in self._queues.drop_after(job, job.source.run.lease):
                gone.forget()
        return self._queues.next_after(job, is_over=self._work.is_stopped)

    async def _handle(self, job: AsyncJob, counters: WorkerCounters) -> None:
        counters.in_flight = 1
        try:
            await finished(self._handler(job))
            await job.__aexit__(None, None, None)
            counters.processed += 1
        except LeaseLost as error:
            job.leave(error)
            _note_loss(error, counters)
        except Reject as error:
            job.leave(error)
            counters.rejected += 1
        except Exception as error:
            job.leave(error)
            counters.failed += 1
            _logger.warning("a handler failed: %s-%d offset %d", job.topic, job.partition, job.offset, exc_info=True)
        except BaseException as error:
            job.leave(error)
            raise
        finally:
            counters.in_flight = 0


def _note_loss(error: LeaseLost, counters: WorkerCounters) -> None:
    counters.lost += 1
    _logger.warning("%s", error.message)


def check_handler(handler: Handler) -> Handler:
    """Raises InvalidRequest for a handler that this client could not run."""
    if not callable(handler):
        raise InvalidRequest(problem=f"{handler!r} cannot be called: a handler is a function that takes a job")
    if not RUNS_COROUTINES and inspect.iscoroutinefunction(handler):
        problem = f"{handler.__qualname__} is asynchronous: register it with the client of quiver.connect_async"
        raise InvalidRequest(problem=problem)
    return handler
