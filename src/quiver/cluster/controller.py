"""What the controller changes: a function of nodes and units, without state (docs/adr/0036-replication.md)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from quiver.replication.unit import NOBODY, Unit

NodeState = Literal["alive", "draining"]


class NodeInfo(NamedTuple):
    """A node whose lease lasts. One without is dead."""

    incarnation: int
    state: NodeState = "alive"
    rack: str = ""


Nodes = Mapping[int, NodeInfo]


def changed_units(units: Mapping[str, Unit], nodes: Nodes) -> dict[str, Unit]:
    """Units that have to be written, each by compare-and-swap on the revision it was read with."""
    changed = ((name, next_unit(unit, nodes)) for name, unit in units.items())
    return {name: unit for name, unit in changed if unit is not None and unit != units[name]}


def next_unit(unit: Unit, nodes: Nodes) -> Unit | None:
    """One step: a finished reassignment, else a new leader, else the preferred one. None: nothing to do."""
    if unit.adding or unit.removing:
        moved = _reassigned(unit, nodes)
        if moved is not None:
            return moved
    if not _leads(unit, nodes):
        return _elected(unit, nodes)
    return _preferred(unit, nodes)


def _leads(unit: Unit, nodes: Nodes) -> bool:
    """Whether the leader is the process that was named."""
    node = nodes.get(unit.leader)
    return node is not None and node.incarnation == unit.incarnation


def _elected(unit: Unit, nodes: Nodes) -> Unit | None:
    """From the in-sync set, else from the eligible leaders, else nobody. Dead nodes leave the set with it."""
    live = [node for node in _in_order(unit) if node in unit.isr and node in nodes]
    if live:
        return _led(unit.with_set(tuple(live)), _best(live, nodes), nodes)
    eligible = [node for node in _in_order(unit) if node in unit.elr and node in nodes]
    if eligible:
        leader = _best(eligible, nodes)
        others = tuple(node for node in dict.fromkeys((*unit.isr, *unit.elr)) if node != leader)
        return _led(msgspec.structs.replace(unit, isr=(leader,), elr=others), leader, nodes)
    if unit.leader == NOBODY:
        return None
    return msgspec.structs.replace(unit, leader=NOBODY, incarnation=0, epoch=unit.epoch + 1)


def _preferred(unit: Unit, nodes: Nodes) -> Unit | None:
    """The first of the list that is in the set leads, and no node that is about to leave if another one can."""
    candidates = [node for node in _in_order(unit) if node in unit.isr and node in nodes]
    best = _best(candidates, nodes) if candidates else unit.leader
    if best == unit.leader or (nodes[best].state == "draining" and nodes[unit.leader].state != "draining"):
        return None
    return _led(unit, best, nodes)


def _reassigned(unit: Unit, nodes: Nodes) -> Unit | None:
    """The end of a reassignment, once every new replica is in the set; None before."""
    if not set(unit.adding) <= set(unit.isr):
        return None
    replicas = tuple(node for node in unit.replicas if node not in unit.removing)
    isr = tuple(node for node in unit.isr if node not in unit.removing)
    if not replicas or not any(node in nodes for node in isr) or len(isr) < min(unit.min_isr, len(replicas)):
        return None
    elr = tuple(node for node in unit.elr if node not in unit.removing)
    done = msgspec.structs.replace(unit, replicas=replicas, isr=isr, elr=elr, adding=(), removing=())
    return done if _leads(done, nodes) and done.leader in replicas else _elected(done, nodes)


def _led(unit: Unit, leader: int, nodes: Nodes) -> Unit:
    incarnation = nodes[leader].incarnation
    return msgspec.structs.replace(unit, leader=leader, incarnation=incarnation, epoch=unit.epoch + 1)


def _in_order(unit: Unit) -> Iterable[int]:
    """The preferred leader first, those that are to be removed last."""
    return sorted(unit.replicas, key=lambda node: node in unit.removing)


def _best(candidates: Sequence[int], nodes: Nodes) -> int:
    return next((node for node in candidates if nodes[node].state == "alive"), candidates[0])


def begin_reassignment(unit: Unit, target: Sequence[int]) -> Unit:
    """The unit on its way to another list of replicas. Another target may be set at any time, also the list from
    before, which cancels it."""
    old = [node for node in unit.replicas if node not in unit.adding]
    adding = tuple(node for node in target if node not in old)
    removing = tuple(node for node in old if node not in target)
    kept = tuple(dict.fromkeys((*target, *old)))
    isr = tuple(node for node in unit.isr if node in kept)
    return msgspec.structs.replace(unit, replicas=kept, isr=isr, adding=adding, removing=removing)


def place(count: int, nodes: Nodes, load: Mapping[int, int]) -> tuple[int, ...]:
    """`count` nodes for the replicas of a new unit: in as many racks as there are, on nodes with the fewest replicas.

    Fewer where there are fewer nodes that stay.
    """
    chosen: list[int] = []
    left = [node for node, info in nodes.items() if info.state == "alive"]
    while left and len(chosen) < count:
        racks = [nodes[node].rack for node in chosen]
        best = min(left, key=lambda node: (racks.count(nodes[node].rack), load.get(node, 0), node))
        chosen.append(best)
        left.remove(best)
    return tuple(chosen)
