"""Which replicas move, so that all nodes have about as many. Pure."""

from collections.abc import Mapping

from quiver.cluster.controller import Nodes, begin_reassignment
from quiver.replication.unit import Unit


def spread(units: Mapping[int, Unit], nodes: Nodes) -> dict[int, Unit]:
    """By worker: reassignments after which no node has two replicas more than another one. A replica does not go to
    a rack that has one already, unless it comes from there. Units that are being reassigned stay as they are."""
    live = sorted(node for node, info in nodes.items() if info.state == "alive")
    planned = {worker: list(unit.replicas) for worker, unit in units.items()}
    settled = [worker for worker, unit in sorted(units.items()) if not (unit.adding or unit.removing)]
    while True:
        load = {node: sum(node in replicas for replicas in planned.values()) for node in live}
        move = next(
            (
                (worker, old, new)
                for old in sorted(live, key=lambda node: (-load[node], node))
                for new in sorted(live, key=lambda node: (load[node], node))
                if load[old] - load[new] > 1
                for worker in settled
                if _may_move(planned[worker], old, new, nodes)
            ),
            None,
        )
        if move is None:
            break
        worker, old, new = move
        planned[worker] = [new if node == old else node for node in planned[worker]]
    moved = {worker: replicas for worker, replicas in planned.items() if tuple(replicas) != units[worker].replicas}
    return {worker: begin_reassignment(units[worker], replicas) for worker, replicas in moved.items()}


def _may_move(replicas: list[int], old: int, new: int, nodes: Nodes) -> bool:
    if old not in replicas or new in replicas:
        return False
    others = [nodes[node].rack for node in replicas if node != old and node in nodes]
    return nodes[new].rack not in others or nodes[new].rack == nodes[old].rack
