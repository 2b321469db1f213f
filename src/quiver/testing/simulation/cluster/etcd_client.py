"""The coordination port over the model of etcd, as one process has it, in place of `EtcdCoordination`."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, TypeVar

from quiver.coordination.events import Proposed
from quiver.coordination.port import (
    ChangeBatch,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    check_transaction,
)
from quiver.model.errors import CoordinationUnavailable
from quiver.testing.simulation.cluster.etcd import EtcdModel, ModelWatch

T = TypeVar("T")

_ATTEMPT_SECONDS = 2.5
_CALL_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


class ModelCoordination:
    """Like `EtcdCoordination`: what may be repeated is repeated for a while, then CoordinationUnavailable."""

    def __init__(self, model: EtcdModel, process: str) -> None:
        self._model, self._process = model, process

    async def close(self) -> None:
        self._model.end_of(self._process)

    async def get(self, key: str) -> KeyValue | None:
        return await self._call(lambda: self._model.state.get(key))

    async def range(self, prefix: str) -> KeyRange:
        return await self._call(lambda: self._model.state.range(prefix))

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        proposed = Proposed(0, list(expected), list(operations))

        def apply() -> Outcome:
            outcome = self._model.state.apply(proposed)
            self._model.changed()
            return outcome

        return await self._attempt(apply)

    async def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        loop = asyncio.get_running_loop()
        batches: deque[ChangeBatch] = deque()
        arrived = asyncio.Event()

        def deliver(batch: ChangeBatch) -> None:
            batches.append(batch)
            loop.call_soon(arrived.set)

        watch = ModelWatch(self._process, prefix, after_revision, deliver)
        self._model.watch(watch)
        try:
            while True:
                while batches:
                    yield batches.popleft()
                arrived.clear()
                await arrived.wait()
        finally:
            self._model.end_watch(watch)

    async def grant_lease(self, ttl_ms: int) -> int:
        return await self._call(lambda: self._model.grant(ttl_ms))

    async def keep_alive(self, lease_id: int) -> bool:
        return await self._call(lambda: self._model.keep_alive(lease_id))

    async def revoke(self, lease_id: int) -> None:
        await self._call(lambda: self._model.revoke(lease_id))

    async def _call(self, apply: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                while True:
                    try:
                        return await self._attempt(apply)
                    except CoordinationUnavailable:
                        await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            raise CoordinationUnavailable(problem="no response") from None

    async def _attempt(self, apply: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def respond(result: Any) -> None:
            loop.call_soon(_respond, future, result)

        self._model.request(self._process, apply, respond)
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                return await future
        except TimeoutError:
            raise CoordinationUnavailable(problem="no response") from None


def _respond(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        return
    if isinstance(result, CoordinationUnavailable):
        future.set_exception(result)
    else:
        future.set_result(result)
