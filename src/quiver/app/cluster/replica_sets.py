"""Who has the replicas of each worker, for operators: what there is, and how it is changed."""

from collections.abc import Mapping, Sequence

from quiver.broker.members import ReplicaSet
from quiver.cluster.controller import begin_reassignment, moved_off
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.cluster.spreading import spread
from quiver.coordination.port import Put
from quiver.model.errors import InvalidRequest, NodeNotFound
from quiver.replication.node import ReplicatedNode
from quiver.replication.unit import Unit, unit_key


class ReplicaSets:
    def __init__(self, state: ClusterState, decisions: UnitDecisions, replicas: ReplicatedNode) -> None:
        self._state, self._decisions, self._replicas = state, decisions, replicas

    @property
    def nodes(self) -> set[str]:
        """That have replicas, alive or not."""
        return {str(node) for unit in self._decisions.units.values() for node in unit.replicas}

    def all(self) -> dict[int, ReplicaSet]:
        """By worker."""
        lags = {each.worker: each.lag_bytes for each in self._replicas.status() if each.is_led_here}
        return {worker: _shown(unit, lags.get(worker, {})) for worker, unit in self._decisions.units.items()}

    @property
    def can_commit(self) -> bool:
        """Whether workers that are led here have enough replicas in sync."""
        return all(each.unit.has_enough for each in self._replicas.status() if each.is_led_here)

    def problems(self) -> dict[str, str]:
        lacking = self._decisions.lacking_nodes
        return {"cluster": f"a new cluster begins when {lacking} more nodes are there"} if lacking else {}

    def warnings(self) -> dict[str, str]:
        behind = [
            worker for worker, unit in sorted(self._decisions.units.items()) if set(unit.isr) < set(unit.replicas)
        ]
        if not behind:
            return {}
        names = ", ".join(map(str, behind))
        return {"replicas": f"not all replicas of workers {names} are in sync: see quiver cluster status"}

    async def move_off(self, node: str) -> None:
        """Its replicas go to other nodes. InvalidRequest where there is no other node for one of them."""
        number, units = _number(node), self._decisions.units
        if not any(number in unit.replicas for unit in units.values()):
            raise NodeNotFound(node=node)
        moved = moved_off(units, number, self._decisions.nodes)
        stuck = [
            worker
            for worker, unit in sorted(units.items())
            if number in unit.replicas and number not in unit.removing and worker not in moved
        ]
        if stuck:
            problem = (
                f"node {node} has replicas of workers {', '.join(map(str, stuck))}, and there is no other node for"
                " them: start one more, or start this one again with an empty data directory"
            )
            raise InvalidRequest(problem=problem)
        await self._write(moved)

    async def reassign(
        self, worker: int, nodes: Sequence[str], *, throttle_bytes_per_sec: int = 0, dry_run: bool
    ) -> ReplicaSet:
        """Gives a worker other replicas, the preferred leader first. The list from before cancels it. The limit
        is of what the leader sends to the new ones; 0: that of its node."""
        unit = self._decisions.units.get(worker)
        if unit is None:
            raise InvalidRequest(problem=f"there is no worker {worker}")
        target = [_number(node) for node in nodes]
        if len(set(target)) != len(target) or len(target) < unit.min_isr:
            problem = f"replicas must be at least {unit.min_isr} different nodes, the preferred leader first"
            raise InvalidRequest(problem=problem)
        for number in target:
            if number not in self._decisions.nodes and number not in unit.replicas:
                raise NodeNotFound(node=str(number))
        planned = begin_reassignment(unit, target, throttle_bytes_per_sec=throttle_bytes_per_sec)
        if not dry_run:
            await self._write({worker: planned})
        return _shown(planned, {})

    async def spread(self) -> None:
        """Moves replicas until all nodes have about as many."""
        await self._write(spread(self._decisions.units, self._decisions.nodes))

    async def _write(self, units: Mapping[int, Unit]) -> None:
        view = self._state.view
        expected = {worker: view.expected(unit_key(worker)) for worker in units}  # what the units are based on
        for worker, unit in units.items():
            if not await view.commit([expected[worker]], [Put(unit_key(worker), unit.key_value)]):
                raise InvalidRequest(problem=f"worker {worker} has changed at the same moment: try again")


def _shown(unit: Unit, lag_bytes: Mapping[int, int]) -> ReplicaSet:
    return ReplicaSet(
        _names(unit.replicas),
        _names(unit.isr),
        _names(unit.elr),
        _names(unit.adding),
        _names(unit.removing),
        unit.min_isr,
        {str(node): size for node, size in lag_bytes.items()},
        unit.throttle_bytes_per_sec,
    )


def _names(nodes: Sequence[int]) -> list[str]:
    return [str(node) for node in nodes]


def _number(node: str) -> int:
    if not node.isdigit():
        raise NodeNotFound(node=node)
    return int(node)
