"""What a lost node costs in a real etcd: the shipped controller and its transactions, 100 nodes and many units."""

import asyncio
import time
from collections.abc import Iterable, Sequence

from benchmarks.cluster_size.decisions import NODES, all_nodes, led_units
from quiver.cluster.membership import records
from quiver.cluster.membership.controlling import RETURN_SECONDS, Controlling
from quiver.cluster.membership.records import NodeRecord
from quiver.cluster.membership.session import Session
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.coordination.etcd.address import parse_etcd_address
from quiver.coordination.etcd.coordination import EtcdCoordination
from quiver.coordination.port import OPERATIONS, Delete, Expected, Operation, Outcome, Put
from quiver.coordination.view import View
from quiver.replication.unit import unit_key

COLUMNS = ("units", "view opened", "leaders replaced", "transactions", "decided and written", "one unit")


class CountedCoordination(EtcdCoordination):
    commits = 0

    async def commit(self, expected: Sequence[Expected], operations: Sequence[Operation]) -> Outcome:
        self.commits += 1
        return await super().commit(expected, operations)


async def measure_failover(counts: Iterable[int], etcd: str) -> list[tuple[str, ...]]:
    return [await _one_node_lost(count, etcd) for count in counts]


async def _one_node_lost(count: int, etcd: str) -> tuple[str, ...]:
    """The nodes are keys without processes; this process is the controller."""
    coordination = CountedCoordination(parse_etcd_address(f"etcd://{etcd}/size-{count}"))
    state = ClusterState(View(coordination), count)
    decisions = UnitDecisions(state, replica_count=3, min_isr=2)
    session = Session(coordination, state, _record(1))
    try:
        nodes = all_nodes()
        changes = [Put(unit_key(worker), unit.key_value) for worker, unit in led_units(count, nodes).items()]
        changes += [Put(records.node_key(str(node)), records.encode(_record(node))) for node in nodes if node != 1]
        for first in range(0, len(changes), OPERATIONS):
            await coordination.commit([], changes[first : first + OPERATIONS])
        begun = time.perf_counter()
        await state.view.open()
        opened = time.perf_counter() - begun
        await session.join()
        controlling = Controlling(state, session, decisions)
        await controlling.decide()
        await asyncio.sleep(RETURN_SECONDS)  # as long as a controller that has just joined waits for others
        lost = sum(unit.leader == NODES for unit in decisions.units.values())
        await state.view.commit([], [Delete(records.node_key(str(NODES)))])
        coordination.commits, begun = 0, time.perf_counter()
        while any(unit.leader == NODES for unit in decisions.units.values()):
            await controlling.decide()
            await asyncio.sleep(0)  # the lease may have ended while units were looked at; then it joins again
        took = time.perf_counter() - begun
        transactions = coordination.commits
        begun = time.perf_counter()
        await state.view.commit([], [Put(unit_key(0), decisions.units[0].key_value)])
        single = time.perf_counter() - begun
    finally:
        await session.leave()
        await state.view.close()
        await coordination.close()
    times = f"{took * 1000:.0f} ms", f"{single * 1000:.1f} ms"
    return f"{count:,}", f"{opened * 1000:.0f} ms", f"{lost:,}", str(transactions), *times


def _record(node: int) -> NodeRecord:
    return NodeRecord(
        node=str(node), incarnation=1, host=f"10.0.0.{node}", native_port=7481, http_port=7480, link_port=7482,
        pid=1, started_ms=0, version="0", rack=all_nodes()[node].rack,
    )  # fmt: skip


def run_failover(counts: Iterable[int], etcd: str) -> list[tuple[str, ...]]:
    return asyncio.run(measure_failover(counts, etcd))
