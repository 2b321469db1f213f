"""A model of etcd for simulated processes: calls are lost, and may take effect after their caller gave up."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

from quiver.cluster.controller import NodeInfo
from quiver.coordination.events import Proposed
from quiver.coordination.port import ChangeBatch, Expected, KeyRange, KeyValue, Operation, Outcome
from quiver.coordination.state import CoordinationState
from quiver.model.errors import CoordinationUnavailable
from quiver.testing.simulation.world import World

T = TypeVar("T")

LEASE_SECONDS = 2.0
_LOST = 0.02
_LATEST_SECONDS = 3.0
_POLL_SECONDS = 0.01


class CoordinationModel:
    def __init__(self, world: World) -> None:
        self.world = world
        self.chance = world.seeded("coordination")
        self.state = CoordinationState()
        self.is_away = False
        self.cut_off: set[int] = set()
        """Nodes that do not reach it."""
        self._seen: dict[int, tuple[float, NodeInfo]] = {}

    def nodes(self) -> dict[int, NodeInfo]:
        """Those whose lease lasts."""
        return {node: info for node, (at, info) in self._seen.items() if self.world.now - at < LEASE_SECONDS}

    def renew(self, node: int, incarnation: int, lost_at: int) -> None:
        self._seen[node] = self.world.now, NodeInfo(incarnation, lost_at=lost_at)


class CoordinationClient:
    """A `Coordination` without leases, as one process sees the model. A node renews its lease with `renew`."""

    def __init__(self, model: CoordinationModel, node: int) -> None:
        self._model, self._node = model, node

    async def get(self, key: str) -> KeyValue | None:
        return await self._call(lambda: self._model.state.get(key))

    async def range(self, prefix: str) -> KeyRange:
        return await self._call(lambda: self._model.state.range(prefix))

    async def nodes(self) -> dict[int, NodeInfo]:
        return await self._call(self._model.nodes)

    async def renew(self, incarnation: int, lost_at: int) -> None:
        await self._call(lambda: self._model.renew(self._node, incarnation, lost_at))

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        proposed = Proposed(0, list(expected), list(operations))
        return await self._call(lambda: self._model.state.apply(proposed))

    async def watch(self, prefix: str, after_revision: int = 0) -> AsyncGenerator[ChangeBatch, None]:
        is_first = after_revision == 0
        while True:
            await asyncio.sleep(_POLL_SECONDS + self._delay())
            if self._is_reachable:
                batch = self._model.state.changes(prefix, after_revision)
                if batch is not None and (is_first or batch.revision != after_revision):
                    is_first, after_revision = False, batch.revision
                    yield batch

    async def grant_lease(self, ttl_ms: int) -> int:
        raise NotImplementedError

    async def keep_alive(self, lease_id: int) -> bool:
        raise NotImplementedError

    async def revoke(self, lease_id: int) -> None:
        raise NotImplementedError

    @property
    def _is_reachable(self) -> bool:
        return not self._model.is_away and self._node not in self._model.cut_off

    def _delay(self) -> float:
        return 0.0005 + self._model.chance.random() * 0.003

    async def _call(self, apply: Callable[[], T]) -> T:
        chance = self._model.chance
        await asyncio.sleep(self._delay())
        fate = chance.random()
        if not self._is_reachable or fate < _LOST:
            if self._is_reachable and chance.random() < 0.5:  # on its way, long after the caller has given up
                self._model.world.later(chance.random() * _LATEST_SECONDS, lambda: _ignore(apply()))
            await asyncio.sleep(0.3)
            raise CoordinationUnavailable(problem="no response")
        result = apply()
        await asyncio.sleep(self._delay())
        if not self._is_reachable or fate < 2 * _LOST:
            raise CoordinationUnavailable(problem="the response was lost")
        return result


def _ignore(_: object) -> None:
    """Of a call whose caller has given up."""
