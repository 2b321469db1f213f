"""The coordination port over the link to worker 0."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from quiver.cluster.placement import CONTROLLER
from quiver.coordination.port import (
    ChangeBatch,
    Expected,
    KeyRange,
    KeyValue,
    Operation,
    Outcome,
    check_transaction,
)
from quiver.links.peers import Peers
from quiver.model.errors import Overloaded, ShuttingDown, WorkerUnavailable
from quiver.routing.coordination.requests import Commit, Get, GrantLease, KeepAlive, NextBatch, Range, Revoke

_AGAIN_SECONDS = 0.02


class RemoteCoordination:
    """Calls wait while worker 0 is being started; those on their way when it dies raise WorkerUnavailable. A watch
    goes on with the worker that follows it.
    """

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def get(self, key: str) -> KeyValue | None:
        return (await self._peers.call(CONTROLLER, Get(key))).value

    async def range(self, prefix: str) -> KeyRange:
        return (await self._peers.call(CONTROLLER, Range(prefix))).value

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        check_transaction(expected, operations)
        return (await self._peers.call(CONTROLLER, Commit(list(expected), list(operations)))).value

    async def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        is_first = after_revision == 0
        while True:
            try:
                reply = await self._peers.call(CONTROLLER, NextBatch(prefix, after_revision, is_first))
            except (WorkerUnavailable, Overloaded, ShuttingDown):
                await asyncio.sleep(_AGAIN_SECONDS)
                continue
            is_first, after_revision = False, reply.value.revision
            yield reply.value

    async def grant_lease(self, ttl_ms: int) -> int:
        return (await self._peers.call(CONTROLLER, GrantLease(ttl_ms))).value

    async def keep_alive(self, lease_id: int) -> bool:
        return (await self._peers.call(CONTROLLER, KeepAlive(lease_id))).value

    async def revoke(self, lease_id: int) -> None:
        await self._peers.call(CONTROLLER, Revoke(lease_id))
