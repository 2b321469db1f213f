"""Who has the replicas of each worker, for operators: what there is, and how it is changed."""

from collections.abc import Callable, Mapping, Sequence

from quiver.broker.members import ReplicaSet
from quiver.cluster.controller import Nodes, moved_off
from quiver.cluster.membership.state import ClusterState
from quiver.cluster.membership.unit_decisions import UnitDecisions
from quiver.cluster.spreading import spread
from quiver.coordination.port import Operation, Put
from quiver.model.errors import InvalidRequest, NodeNotFound
from quiver.replication.node import ReplicatedNode
from quiver.replication.unit import Unit, unit_key

Units = Mapping[int, Unit]
Plan = Callable[[Units, Nodes], Units]
"""Units as they should be, of those that there are. It may raise."""
Also = Callable[[], Sequence[Operation]]
_ATTEMPTS = 5


def _nothing() -> Sequence[Operation]:
    return ()


class ReplicaSets:
    def __init__(self, state: ClusterState, decisions: UnitDecisions, replicas: ReplicatedNode) -> None:
        self._state, self._decisions, self._replicas = state, decisions, replicas
        self.also: Also = _nothing
        """What is written with every change."""

    @property
    def units(self) -> Units:
        return self._decisions.units

    @property
    def nodes(self) -> set[str]:
        """That have replicas, alive or not."""
        return {str(node) for unit in self._decisions.units.values() for node in unit.replicas}

    @property
    def joining(self) -> set[str]:
        """Nodes of which no replica is in sync yet."""
        in_sync = {str(node) for unit in self.units.values() for node in unit.isr}
        return self.nodes - in_sync

    def all(self) -> dict[int, ReplicaSet]:
        """By worker."""
        lags = {each.worker: each.lag_bytes for each in self._replicas.status() if each.is_led_here}
        return {worker: shown_replicas(unit, lags.get(worker, {})) for worker, unit in self._decisions.units.items()}

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
        numbers = ", ".join(map(str, behind))
        return {"replicas": f"not all replicas of workers {numbers} are in sync: see quiver cluster status"}

    async def move_off(self, node: str, *, dry_run: bool = False) -> Units:
        """Its replicas go to other nodes. InvalidRequest where there is no other node for one of them."""
        number = _number(node)

        def plan(units: Units, nodes: Nodes) -> Units:
            if not any(number in unit.replicas for unit in units.values()):
                raise NodeNotFound(node=node)
            moved = moved_off(units, number, nodes)
            _check_none_stays(number, units, moved)
            return moved

        return self.planned(plan) if dry_run else await self.change(plan)

    async def spread(self, *, dry_run: bool = False) -> Units:
        """Moves replicas until all nodes have about as many."""
        return self.planned(spread) if dry_run else await self.change(spread)

    def target(self, worker: int, wanted: Sequence[str], units: Units, nodes: Nodes) -> tuple[int, ...]:
        """The nodes that are named for a worker, if it can have its replicas there."""
        unit = units.get(worker)
        if unit is None:
            raise InvalidRequest(problem=f"there is no unit {worker}: they are numbered from 0 to {len(units) - 1}")
        target = tuple(_number(node) for node in wanted)
        if len(set(target)) != len(target) or len(target) < unit.min_isr:
            problem = f"replicas must be at least {unit.min_isr} different nodes, the preferred leader first"
            raise InvalidRequest(problem=problem)
        for number in target:
            if number not in nodes and number not in unit.replicas:
                raise NodeNotFound(node=str(number))
        return target

    def planned(self, plan: Plan) -> Units:
        """What `change` would write."""
        return plan(self._decisions.units, self._decisions.nodes)

    async def change(self, plan: Plan, also: Also = _nothing) -> Units:
        """Writes units and what goes with them, all or nothing. When something has changed at the same moment it is
        planned again; `also` is called after each plan."""
        view = self._state.view
        for _ in range(_ATTEMPTS):
            units = self.planned(plan)
            operations = {each.key: each for each in self.also()}
            operations |= {unit_key(worker): Put(unit_key(worker), unit.key_value) for worker, unit in units.items()}
            operations |= {each.key: each for each in also()}
            if not operations or await view.commit(
                [view.expected(key) for key in operations], [*operations.values()]
            ):
                return units
        raise InvalidRequest(problem="the units have changed at the same moment, again and again: try once more")


def _check_none_stays(node: int, units: Units, moved: Units) -> None:
    stuck = [
        worker
        for worker, unit in sorted(units.items())
        if node in unit.replicas and node not in unit.removing and worker not in moved
    ]
    if stuck:
        problem = (
            f"node {node} has replicas of workers {', '.join(map(str, stuck))}, and there is no other node for"
            " them: start one more, or start this one again with an empty data directory"
        )
        raise InvalidRequest(problem=problem)


def shown_replicas(unit: Unit, lag_bytes: Mapping[int, int]) -> ReplicaSet:
    return ReplicaSet(
        names(unit.replicas),
        names(unit.isr),
        names(unit.elr),
        names(unit.adding),
        names(unit.removing),
        unit.min_isr,
        {str(node): size for node, size in lag_bytes.items()},
        unit.throttle_bytes_per_sec,
    )


def names(nodes: Sequence[int]) -> list[str]:
    return [str(node) for node in nodes]


def _number(node: str) -> int:
    if not node.isdigit():
        raise NodeNotFound(node=node)
    return int(node)
