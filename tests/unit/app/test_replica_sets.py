"""What operators change of replicas, while leaders change the same keys."""

from quiver.app.cluster.node_calls import NodeCalls
from quiver.app.cluster.replicas.replica_sets import ReplicaSets
from quiver.cluster.membership import records
from quiver.cluster.membership.records import NodeRecord
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.coordination.port import Expected, Operation, Outcome, Put
from quiver.coordination.view import View
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


async def test_a_set_that_its_leader_has_changed_meanwhile_is_planned_again() -> None:
    """What the leader wrote stays: units are written only over what the plan was made from."""
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
        shrunk = LED.with_set((1,))
        store.before = Put(unit_key(1), shrunk.key_value)
        await ReplicaSets(state, decisions, replicas).spread()
        assert decisions.units[1].isr == shrunk.isr
        assert any(unit.adding for unit in decisions.units.values())
    finally:
        await state.view.close()
        await store.close()
