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
    lost_at: int = 0
    """The last incarnation that began after a stop that was not clean."""


Nodes = Mapping[int, NodeInfo]


def changed_units(units: Mapping[int, Unit], nodes: Nodes) -> dict[int, Unit]:
    """By worker: units that have to be written, each by compare-and-swap on the revision it was read with."""
    changed = ((worker, next_unit(unit, nodes)) for worker, unit in units.items())
    return {worker: unit for worker, unit in changed if unit is not None and unit != units[worker]}


def next_unit(unit: Unit, nodes: Nodes) -> Unit | None:
    """One step: a finished reassignment, else a new leader, else a successor that the leader asks for, else the
    preferred one. None: nothing to do."""
    if unit.adding or unit.removing:
        moved = _reassigned(unit, nodes)
        if moved is not None:
            return moved
    if not _leads(unit, nodes):
        return _elected(unit, nodes)
    return _succeeded(unit, nodes) or _preferred(unit, nodes)


def _without_lost(unit: Unit, nodes: Nodes) -> Unit:
    """Members that may have lost something do not count, unless all may, and are back: then what they have is what
    is left."""
    lost = _lost(unit, nodes)
    if not lost:
        return unit
    if lost >= {*unit.isr, *unit.elr}:
        joined = {**unit.joined, **{node: nodes[node].incarnation for node in lost}}
        return msgspec.structs.replace(unit, joined=joined, loss_epoch=unit.epoch + 1)
    isr = tuple(node for node in unit.isr if node not in lost)
    elr = tuple(node for node in unit.elr if node not in lost)
    return msgspec.structs.replace(unit, isr=isr, elr=elr)


def _lost(unit: Unit, nodes: Nodes) -> set[int]:
    """Members of a unit that acks before it syncs that have stopped uncleanly since they joined."""
    if not unit.is_volatile:
        return set()
    members = (*unit.isr, *unit.elr)
    return {node for node in members if node in nodes and nodes[node].lost_at > unit.joined.get(node, 0)}


def _leads(unit: Unit, nodes: Nodes) -> bool:
    """Whether the leader is the process that was named."""
    node = nodes.get(unit.leader)
    return node is not None and node.incarnation == unit.incarnation


def _elected(unit: Unit, nodes: Nodes) -> Unit | None:
    """From the in-sync set, else from the eligible leaders, else nobody. Dead nodes leave the set with it."""
    before, unit = unit, _without_lost(unit, nodes)
    live = [node for node in _in_order(unit) if node in unit.isr and node in nodes]
    if live:
        return _led(unit.with_set(tuple(live)), _best(live, nodes), nodes)
    eligible = [node for node in _in_order(unit) if node in unit.elr and node in nodes]
    if eligible:
        return _led_alone(unit, _best(eligible, nodes), nodes)
    if before.leader == NOBODY:
        return None
    return msgspec.structs.replace(before, leader=NOBODY, incarnation=0, epoch=before.epoch + 1)


def _succeeded(unit: Unit, nodes: Nodes) -> Unit | None:
    """Too few others reply to the leader, and enough of them live: one of those that have everything leads."""
    if not unit.wants_successor or unit.has_enough:
        return None
    others = [node for node in _in_order(unit) if node != unit.leader and node in nodes]
    lost = _lost(unit, nodes)
    eligible = [node for node in others if node in unit.elr and node not in lost]
    if not eligible or len(others) < unit.min_isr:
        return None
    return _led_alone(unit, _best(eligible, nodes), nodes)


def _preferred(unit: Unit, nodes: Nodes) -> Unit | None:
    """The first of the list that is in the set leads, and no node that is about to leave if another one can."""
    lost = _lost(unit, nodes)
    candidates = [node for node in _in_order(unit) if node in unit.isr and node in nodes and node not in lost]
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
    whole = set(isr) - _lost(unit, nodes)
    if not replicas or not whole & nodes.keys() or len(whole) < min(unit.min_isr, len(replicas)):
        return None
    elr = tuple(node for node in unit.elr if node not in unit.removing)
    done = msgspec.structs.replace(unit, replicas=replicas, isr=isr, elr=elr, adding=(), removing=())
    done = msgspec.structs.replace(done, throttle_bytes_per_sec=0)
    return done if _leads(done, nodes) and done.leader in replicas else _elected(done, nodes)


def _led_alone(unit: Unit, leader: int, nodes: Nodes) -> Unit:
    """By an eligible leader, as the only member of the set: all others are eligible."""
    others = tuple(node for node in dict.fromkeys((*unit.isr, *unit.elr)) if node != leader)
    return _led(msgspec.structs.replace(unit, isr=(leader,), elr=others), leader, nodes)


def _led(unit: Unit, leader: int, nodes: Nodes) -> Unit:
    return msgspec.structs.replace(
        unit,
        leader=leader,
        incarnation=nodes[leader].incarnation,
        epoch=unit.epoch + 1,
        wants_successor=False,
    )


def _in_order(unit: Unit) -> Iterable[int]:
    """The preferred leader first, those that are to be removed last."""
    return sorted(unit.replicas, key=lambda node: node in unit.removing)


def _best(candidates: Sequence[int], nodes: Nodes) -> int:
    return next((node for node in candidates if nodes[node].state == "alive"), candidates[0])


def begin_reassignment(unit: Unit, target: Sequence[int], *, throttle_bytes_per_sec: int = 0) -> Unit:
    """The unit on its way to another list of replicas. Another target may be set at any time, also the list from
    before, which cancels it. A node that was being added stays, as one to be removed, if it may be the only one that
    has everything. The limit counts until it is done; 0: none of its own."""
    old = [node for node in unit.replicas if node not in unit.adding]
    members = [node for node in unit.adding if node in unit.isr or node in unit.elr]
    adding = tuple(node for node in target if node not in old)
    kept = tuple(dict.fromkeys((*target, *old, *members)))
    removing = tuple(node for node in kept if node not in target)
    throttle = throttle_bytes_per_sec if adding else 0
    return msgspec.structs.replace(
        unit, replicas=kept, adding=adding, removing=removing, throttle_bytes_per_sec=throttle
    )


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


def new_units(workers: Iterable[int], nodes: Nodes, *, replica_count: int, min_isr: int) -> dict[int, Unit]:
    """The units of workers that have none yet, in a new cluster: replicas and preferred leaders are spread evenly.

    Nobody leads them yet. The sets are as large as the cluster allows.
    """
    load: dict[int, int] = {}
    leaders: dict[int, int] = {}
    found = {}
    for worker in workers:
        chosen = place(replica_count, nodes, load)
        if not chosen:
            return {}
        order = tuple(sorted(chosen, key=lambda node: (leaders.get(node, 0), load.get(node, 0), node)))
        leaders[order[0]] = leaders.get(order[0], 0) + 1
        for node in order:
            load[node] = load.get(node, 0) + 1
        joined = {node: nodes[node].incarnation for node in order}
        found[worker] = Unit(replicas=order, isr=order, min_isr=min(min_isr, len(order)), joined=joined)
    return found


def moved_off(units: Mapping[int, Unit], node: int, nodes: Nodes) -> dict[int, Unit]:
    """By worker: reassignments after which a node, dead or alive, has no replica. Units for whose replica there is no
    other place stay as they are."""
    load: dict[int, int] = {}
    for unit in units.values():
        for replica in unit.replicas:
            load[replica] = load.get(replica, 0) + 1
    moved = {}
    for worker, unit in units.items():
        if node not in unit.replicas or node in unit.removing:
            continue
        others = {each: info for each, info in nodes.items() if each != node and each not in unit.replicas}
        new = next(iter(place(1, others, load)), None)
        if new is None:
            continue
        load[new] = load.get(new, 0) + 1
        stays = [each for each in unit.replicas if each not in unit.removing]
        moved[worker] = begin_reassignment(unit, [new if each == node else each for each in stays])
    return moved
