"""What operators change of replicas, while leaders change the same keys."""

from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from quiver.app.cluster.node_calls import NodeCalls
from quiver.app.cluster.replicas.replica_sets import ReplicaSets
from quiver.cluster.membership import records
from quiver.cluster.membership.records import NodeRecord
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.coordination.port import Expected, Operation, Outcome, Put
from quiver.coordination.view import View
from quiver.model.errors import NodeNotFound
from quiver.replication.node import ReplicatedNode
from quiver.replication.settings import Member
from quiver.replication.unit import Unit, unit_key
from quiver.storage.memory.storage import MemoryStorage
from quiver.testing.memory_coordination import MemoryCoordination

LED = Unit(replicas=(1, 2), isr=(1, 2), leader=1, incarnation=1, epoch=1, min_isr=1)


class Store(MemoryCoordination):
    before: Put | None = None

    async def commit(self, expected: list[Expected], operations: list[Operation]) -> Outcome:  # type: ignore[override]
        if (put := self.before) is not None:
            self.before = None
            await super().commit([], [put])
        return await super().commit(expected, operations)


class Cluster(NamedTuple):
    """Six units on nodes 1 and 2; nodes 3 and 4 have nothing."""

    store: Store
    decisions: UnitDecisions
    sets: ReplicaSets


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store = Store()
    for worker in range(6):
        await store.commit([], [Put(unit_key(worker), LED.key_value)])
    for number in (1, 2, 3, 4):
        record = NodeRecord(
            node=str(number), incarnation=1, host="here", native_port=1, http_port=2, link_port=3,
            pid=4, started_ms=5, version="6",
        )  # fmt: skip
        await store.commit([], [Put(records.node_key(str(number)), records.encode(record))])
    state = ClusterState(View(store), 6)
    decisions = UnitDecisions(state, replica_count=2, min_isr=1)
    await state.view.open()
    replicas = ReplicatedNode(Member(1, 1), MemoryStorage(), store, NodeCalls())
    try:
        yield Cluster(store, decisions, ReplicaSets(state, decisions, replicas))
    finally:
        await state.view.close()
        await store.close()


async def test_a_set_that_its_leader_has_changed_meanwhile_is_planned_again(cluster: Cluster) -> None:
    """What the leader wrote stays: units are written only over what the plan was made from."""
    shrunk = LED.with_set((1,))
    cluster.store.before = Put(unit_key(1), shrunk.key_value)
    await cluster.sets.spread()
    assert cluster.decisions.units[1].isr == shrunk.isr
    assert any(unit.adding for unit in cluster.decisions.units.values())


async def test_a_dry_run_shows_what_would_be_written(cluster: Cluster) -> None:
    before = dict(cluster.decisions.units)
    planned = await cluster.sets.spread(dry_run=True)
    assert {node for unit in planned.values() for node in unit.adding} == {3, 4}
    moved = await cluster.sets.move_off("1", dry_run=True)
    assert set(moved) == set(before)
    assert {unit.removing for unit in moved.values()} == {(1,)}
    with pytest.raises(NodeNotFound):
        await cluster.sets.move_off("3", dry_run=True)
    assert cluster.decisions.units == before
    await cluster.sets.spread()
    assert {worker: unit for worker, unit in cluster.decisions.units.items() if unit.adding} == planned
