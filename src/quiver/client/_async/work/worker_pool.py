"""The consumers of queue groups of a client, and the handlers that run together."""

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from typing import Unpack

from quiver.client._async.connection.reconnecting import AsyncReconnectingConnection
from quiver.client._async.work.work import AsyncWork
from quiver.client._async.work.worker import AsyncWorker, check_handler
from quiver.client._backend_async import Signal, signal_safe
from quiver.client.work.options import WorkOptions, work_config
from quiver.client.work.stop_signals import stop_signals
from quiver.client.work.worker_counters import WorkerCounters, total
from quiver.client.work.worker_definition import WORKER_MARK, WorkerDefinition
from quiver.model.errors import InvalidRequest, QuiverError
from quiver.model.times import Duration

_logger = logging.getLogger("quiver.worker")


class AsyncWorkerPool:
    """Every consumer has a connection of its own, so that closing it ends everything that it waits for."""

    def __init__(self, connect: Callable[[], AsyncReconnectingConnection]) -> None:
        self._connect = connect
        self._works: list[AsyncWork] = []
        self._registered: list[WorkerDefinition] = []
        self._workers: list[AsyncWorker] = []
        self._over = Signal()

    def work(
        self,
        topics: str | Sequence[str],
        group: str,
        *,
        concurrency: int = 1,
        timeout: Duration | None = None,
        **options: Unpack[WorkOptions],
    ) -> AsyncWork:
        broker = self._connect()
        name = f"{socket.gethostname()}-{os.getpid()}-{broker.randomness.token(4).hex()}"
        now_ms = broker.clock.now_ms()
        config = work_config(
            topics, group, now_ms=now_ms, name=name, concurrency=concurrency, timeout=timeout, **options
        )
        work = AsyncWork(broker, config)
        self._works = [known for known in self._works if not known.is_closed]
        self._works.append(work)
        return work

    def register(self, definition: WorkerDefinition) -> None:
        """Adds a handler to those that `run` runs; the function keeps its options as an attribute."""
        handler = check_handler(definition.handler)
        self._registered.append(definition)
        with contextlib.suppress(AttributeError):  # not every callable has attributes
            setattr(handler, WORKER_MARK, definition)

    @property
    def counters(self) -> WorkerCounters:
        """What the handlers of the last run have done."""
        return total([worker.counters for worker in self._workers])

    async def run(self) -> None:
        """Runs all handlers until `stop`, a signal, or an error; then running handlers finish and everything is
        settled."""
        if not self._registered:
            raise InvalidRequest(problem="there are no workers: register handlers with @q.worker first")
        workers = self._workers = [self._worker(each) for each in self._registered]
        with stop_signals(signal_safe(self._over.set)) as received:
            try:
                for worker in workers:
                    await worker.start(self._over)
                await self._over.wait(None)
            finally:
                self._over.clear()
                if received:
                    _logger.info("%s: running handlers may finish, other jobs are given back", received[0])
                for worker in workers:
                    worker.stop()
                for worker in workers:
                    await worker.close()
        for worker in workers:
            if worker.error is not None:
                raise worker.error

    def stop(self) -> None:
        """Starts no more handlers; `run` ends once the running ones are done."""
        for worker in self._workers:
            worker.stop()
        self._over.set()

    async def close(self, timeout: Duration | None) -> QuiverError | None:
        """Closes every consumer; returns the first error."""
        self.stop()
        first_error: QuiverError | None = None
        for work in self._works:
            try:
                await work.close(timeout)
            except QuiverError as error:
                first_error = first_error or error
        return first_error

    def _worker(self, definition: WorkerDefinition) -> AsyncWorker:
        count = definition.concurrency
        work = self.work(definition.topics, definition.group, concurrency=count, **definition.options)
        return AsyncWorker(work, definition.handler, count)
