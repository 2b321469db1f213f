"""Which replicas move, so that all nodes have about as many. Pure."""

from bisect import bisect_left, insort
from collections.abc import Mapping

from quiver.cluster.controller import Nodes, begin_reassignment
from quiver.replication.unit import Unit

Racks = frozenset[str]


def spread(units: Mapping[int, Unit], nodes: Nodes) -> dict[int, Unit]:
    """By worker: reassignments after which no node has two replicas more than another one. A replica does not go to
    a rack that has one already, unless it comes from there. Units that are being reassigned stay as they are."""
    plan = _Plan(units, nodes)
    while (move := plan.next_move()) is not None:
        plan.make(*move)
    moved = {worker: found for worker, found in plan.replicas.items() if tuple(found) != units[worker].replicas}
    return {worker: begin_reassignment(units[worker], found) for worker, found in moved.items()}


class _Plan:
    """The replicas of all units, sorted by where they are, so that a move costs no look at all units."""

    def __init__(self, units: Mapping[int, Unit], nodes: Nodes) -> None:
        self._nodes = nodes
        self._live = sorted(node for node, info in nodes.items() if info.state == "alive")
        self._load = dict.fromkeys(self._live, 0)
        self._settled: dict[int, dict[Racks, list[int]]] = {node: {} for node in self._live}
        """By node, and by the racks of the other replicas: workers with a replica there that may move, sorted."""
        self.replicas: dict[int, list[int]] = {}
        for worker, unit in sorted(units.items()):
            self.replicas[worker] = list(unit.replicas)
            for node in unit.replicas:
                if node in self._load:
                    self._load[node] += 1
            if not (unit.adding or unit.removing):
                self._add(worker)

    def next_move(self) -> tuple[int, int, int] | None:
        """A worker, the node that its replica leaves, and the one that gets it."""
        load = self._load
        emptiest = sorted(self._live, key=lambda node: (load[node], node))
        for old in sorted(self._live, key=lambda node: (-load[node], node)):
            for new in emptiest:
                if load[old] - load[new] <= 1:
                    break
                worker = self._first(old, new)
                if worker is not None:
                    return worker, old, new
        return None

    def make(self, worker: int, old: int, new: int) -> None:
        self._remove(worker)
        self.replicas[worker] = [new if node == old else node for node in self.replicas[worker]]
        self._add(worker)
        self._load[old] -= 1
        self._load[new] += 1

    def _first(self, old: int, new: int) -> int | None:
        rack, is_same_rack = self._nodes[new].rack, self._nodes[new].rack == self._nodes[old].rack
        found = [
            next((worker for worker in workers if new not in self.replicas[worker]), None)
            for racks, workers in self._settled[old].items()
            if is_same_rack or rack not in racks
        ]
        return min((worker for worker in found if worker is not None), default=None)

    def _add(self, worker: int) -> None:
        for node in self.replicas[worker]:
            if node in self._settled:
                insort(self._settled[node].setdefault(self._other_racks(worker, node), []), worker)

    def _remove(self, worker: int) -> None:
        for node in self.replicas[worker]:
            if node in self._settled:
                racks = self._other_racks(worker, node)
                workers = self._settled[node][racks]
                del workers[bisect_left(workers, worker)]
                if not workers:
                    del self._settled[node][racks]

    def _other_racks(self, worker: int, node: int) -> Racks:
        nodes = self._nodes
        return frozenset(nodes[each].rack for each in self.replicas[worker] if each != node and each in nodes)
