"""Reassignments of operators: what their records say, and how they are begun, cancelled and ended."""

from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from quiver.app.cluster.replicas.reassignments import Reassignments
from quiver.app.cluster.replicas.replica_sets import ReplicaSets
from quiver.broker.members import ReassignmentOptions
from quiver.cluster.membership import records
from quiver.cluster.membership.reassignment_records import ReassignmentRecords
from quiver.cluster.membership.records import NodeRecord
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.cluster.reassignments import KEPT, Reassignment, UnitTarget, noted, replicas_before, state_of, surplus
from quiver.coordination.port import Expected, Operation, Outcome, Put
from quiver.coordination.view import View
from quiver.model.errors import InvalidRequest, NodeNotFound, ReassignmentNotFound
from quiver.replication.unit import Unit, decode_unit, unit_key
from quiver.system.clock import SystemClock
from quiver.testing.memory_coordination import MemoryCoordination

AT_REST = Unit(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, incarnation=1, epoch=1, min_isr=2)
MOVING = msgspec.structs.replace(AT_REST, replicas=(4, 2, 3, 1), adding=(4,), removing=(1,))
MOVED = msgspec.structs.replace(AT_REST, replicas=(4, 2, 3), isr=(2, 3, 4), leader=4, epoch=2)
TARGET = UnitTarget(replicas=(4, 2, 3), before=(1, 2, 3))


def record(number: int = 1, **fields: Any) -> Reassignment:
    return Reassignment(**({"number": number, "started_ms": 1, "units": {0: TARGET}} | fields))


@pytest.mark.parametrize(
    ("units", "state"),
    [
        ({0: MOVING, 1: MOVED}, "running"),
        ({0: MOVED, 1: MOVED}, "done"),
        ({0: AT_REST, 1: MOVED}, "replaced"),
        ({1: MOVED}, "replaced"),
    ],
)
def test_its_state_follows_from_its_units(units: dict[int, Unit], state: str) -> None:
    assert state_of(record(units={0: TARGET, 1: TARGET}), units) == state


def test_what_has_been_noted_stays() -> None:
    both = record(units={0: TARGET, 1: TARGET})
    assert noted(both, {0: MOVING, 1: MOVING}, 9) is both
    one = noted(both, {0: MOVING, 1: MOVED}, 9)
    assert (one.units[0].outcome, one.units[1].outcome, one.has_ended) == ("running", "done", False)
    ended = noted(one, {0: MOVED, 1: AT_REST}, 9)
    assert ({each.outcome for each in ended.units.values()}, ended.ended_ms) == ({"done"}, 9)
    assert noted(ended, {0: AT_REST, 1: AT_REST}, 10) is ended


def test_where_a_unit_would_go_back_to() -> None:
    assert replicas_before(0, MOVING, [record()]) == (1, 2, 3), "as it was, in its order"
    assert set(replicas_before(0, MOVING, [])) == {1, 2, 3}
    assert replicas_before(0, MOVED, [record()]) == (4, 2, 3)


def test_the_oldest_that_have_ended_are_forgotten() -> None:
    found = {number: record(number, ended_ms=number - 1) for number in range(1, KEPT + 4)}
    assert surplus(found) == [2, 3], "the first one goes on"
    assert surplus(dict(list(found.items())[:KEPT])) == []


class Store(MemoryCoordination):
    """Coordination in which somebody else is faster, so many times."""

    def __init__(self) -> None:
        super().__init__()
        self.losses = 0

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        if self.losses and any(each.key == unit_key(0) for each in expected):
            self.losses -= 1
            found = await self.get(unit_key(0))
            assert found is not None
            await super().commit([], [Put(unit_key(0), found.value)])
        return await super().commit(expected, operations)


class Cluster:
    """Four nodes and two units, without brokers."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state = ClusterState(View(store), 2)
        self.decisions = UnitDecisions(self.state, replica_count=3, min_isr=2)
        replicas: Any = SimpleNamespace(status=list)
        sets = ReplicaSets(self.state, self.decisions, replicas)
        self.records = ReassignmentRecords(self.state)
        self.moves = Reassignments(self.records, sets, store, SystemClock())

    async def put(self, worker: int, unit: Unit) -> None:
        await self.state.view.commit([], [Put(unit_key(worker), unit.key_value)])

    async def begin(self, *nodes: str, dry_run: bool = False, **options: int) -> Any:
        return await self.moves.begin({0: nodes}, ReassignmentOptions(**options), dry_run=dry_run)

    async def unit(self) -> Unit:
        found = await self.store.get(unit_key(0))
        assert found is not None
        return decode_unit(found.value)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store = Store()
    for number in (1, 2, 3, 4):
        node = NodeRecord(
            node=str(number), incarnation=1, host="here", native_port=1, http_port=2, link_port=3,
            pid=4, started_ms=5, version="6",
        )  # fmt: skip
        await store.commit([], [Put(records.node_key(str(number)), records.encode(node))])
    for worker in (0, 1):
        await store.commit([], [Put(unit_key(worker), AT_REST.key_value)])
    found = Cluster(store)
    await found.state.view.open()
    yield found
    await found.state.view.close()
    await store.close()


async def test_it_begins_and_its_end_is_noted_although_the_unit_moves_on(cluster: Cluster) -> None:
    planned = await cluster.begin("4", "2", "3", dry_run=True)
    assert (planned.number, planned.moves[0].replicas.adding, cluster.moves.all()) == (0, ["4"], [])
    begun = await cluster.begin("4", "2", "3", throttle_bytes_per_sec=1_000)
    assert (begun.number, begun.state, begun.moves[0].before) == (1, "running", ["1", "2", "3"])
    assert ((await cluster.unit()).adding, (await cluster.unit()).throttle_bytes_per_sec) == ((4,), 1_000)
    await cluster.put(0, MOVED)
    assert cluster.moves.get(1).state == "done"
    second = await cluster.begin("1", "2", "3")
    assert [each.state for each in cluster.moves.all()] == ["running", "done"]
    assert cluster.moves.get(1).ended_ms
    assert second.moves[0].before == ["4", "2", "3"]


async def test_it_is_cancelled_once(cluster: Cluster) -> None:
    await cluster.begin("4", "2", "3")
    assert (await cluster.moves.cancel(1)).state == "cancelled"
    assert await cluster.unit() == AT_REST
    assert (await cluster.moves.cancel(1)).state == "cancelled"
    with pytest.raises(ReassignmentNotFound):
        await cluster.moves.cancel(2)


async def test_another_target_replaces_it(cluster: Cluster) -> None:
    await cluster.begin("4", "2", "3")
    await cluster.begin("1", "2", "4")
    await cluster.moves.look()
    assert [each.state for each in cluster.moves.all()] == ["running", "replaced"]
    await cluster.moves.cancel(1)
    assert (await cluster.unit()).adding == (4,), "what has ended changes nothing"
    await cluster.moves.cancel(2)
    assert await cluster.unit() == AT_REST


async def test_the_same_again_changes_its_limit(cluster: Cluster) -> None:
    begun = await cluster.begin("4", "2", "3", throttle_bytes_per_sec=1_000)
    planned = await cluster.begin("4", "2", "3", throttle_bytes_per_sec=5, dry_run=True)
    assert (planned.options.throttle_bytes_per_sec, (await cluster.unit()).throttle_bytes_per_sec) == (5, 1_000)
    changed = await cluster.begin("4", "2", "3", throttle_bytes_per_sec=2_000)
    assert (changed.number, changed.started_ms, len(cluster.moves.all())) == (1, begun.started_ms, 1)
    assert cluster.moves.get(1).options.throttle_bytes_per_sec == 2_000
    assert ((await cluster.unit()).adding, (await cluster.unit()).throttle_bytes_per_sec) == ((4,), 2_000)
    await cluster.begin("4", "2", "3")
    assert (await cluster.unit()).throttle_bytes_per_sec == 0, "none of its own any more"
    await cluster.moves.cancel(1)
    assert await cluster.unit() == AT_REST
    assert (await cluster.begin("4", "2", "3")).number == 2, "what has ended is not begun again"


async def test_only_what_has_all_units_on_their_way_is_the_same(cluster: Cluster) -> None:
    both = {0: ("4", "2", "3"), 1: ("4", "2", "3")}
    await cluster.moves.begin(both, ReassignmentOptions(), dry_run=False)
    await cluster.put(1, MOVED)
    limited = ReassignmentOptions(throttle_bytes_per_sec=9)
    assert (await cluster.moves.begin({0: both[0]}, limited, dry_run=False)).number == 1, "unit 1 is done"
    assert (await cluster.moves.begin(both, limited, dry_run=False)).number == 1
    assert (await cluster.moves.begin(both | {1: ("1", "2", "3")}, limited, dry_run=False)).number == 2


async def test_the_same_again_with_a_timeout_has_that_one(cluster: Cluster) -> None:
    await cluster.begin("4", "2", "3", timeout_ms=60_000)
    assert (await cluster.begin("4", "2", "3")).options.timeout_ms == 60_000, "it stays"
    assert (await cluster.begin("4", "2", "3", timeout_ms=90_000)).options.timeout_ms == 90_000
    await cluster.store.revoke(1)
    await cluster.put(0, await cluster.unit())  # the view is as far as that
    await cluster.moves.look()
    assert cluster.moves.get(1).state == "running"
    await cluster.store.revoke(2)
    await cluster.put(0, await cluster.unit())
    await cluster.moves.look()
    assert cluster.moves.get(1).state == "timed_out"


async def test_it_goes_back_when_its_lease_has_ended(cluster: Cluster) -> None:
    await cluster.begin("4", "2", "3", timeout_ms=60_000)
    await cluster.moves.look()
    assert cluster.moves.get(1).state == "running"
    await cluster.store.revoke(1)
    await cluster.put(1, AT_REST)  # the view is as far as that
    await cluster.moves.look()
    assert cluster.moves.get(1).state == "timed_out"
    assert await cluster.unit() == AT_REST


async def test_it_is_planned_again_when_somebody_else_was_faster(cluster: Cluster) -> None:
    cluster.store.losses = 4
    assert (await cluster.begin("4", "2", "3")).number == 1
    cluster.store.losses = 5
    with pytest.raises(InvalidRequest, match="try once more"):
        await cluster.begin("1", "2", "3")
    assert [each.number for each in cluster.moves.all()] == [1]


@pytest.mark.parametrize("nodes", [("1",), ("1", "1"), ()])
async def test_too_few_replicas_are_refused(cluster: Cluster, nodes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="at least 2 different nodes"):
        await cluster.begin(*nodes)


async def test_unknown_nodes_are_refused(cluster: Cluster) -> None:
    for node in ("9", "x"):
        with pytest.raises(NodeNotFound):
            await cluster.begin("1", "2", node)
