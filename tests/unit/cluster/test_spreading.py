"""Replicas move until all nodes have about as many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cluster.controller import NodeInfo, begin_reassignment, moved_off
from quiver.cluster.spreading import spread
from quiver.replication.unit import Unit


def unit(*replicas: int) -> Unit:
    return Unit(replicas=replicas, isr=replicas, leader=replicas[0], min_isr=1)


def test_a_new_node_gets_its_share() -> None:
    units = {worker: unit(1, 2, 3) for worker in range(4)}
    nodes = {number: NodeInfo(1) for number in (1, 2, 3, 4)}
    moved = spread(units, nodes)
    assert len(moved) == 3, "twelve replicas on four nodes"
    assert all(each.adding == (4,) and len(each.removing) == 1 for each in moved.values())


@pytest.mark.parametrize(
    "nodes",
    [
        {number: NodeInfo(1) for number in (1, 2, 3)},
        {1: NodeInfo(1), 2: NodeInfo(1), 3: NodeInfo(1), 4: NodeInfo(1, "draining")},
        {1: NodeInfo(1, rack="a"), 2: NodeInfo(1, rack="b"), 3: NodeInfo(1, rack="c"), 4: NodeInfo(1, rack="d")}
        | {5: NodeInfo(1)},
    ],
)
def test_nothing_moves_where_it_is_even(nodes: dict[int, NodeInfo]) -> None:
    units = {worker: unit(1, 2, 3) for worker in range(1)}
    assert spread(units, nodes) == {}


def test_racks_stay_apart() -> None:
    nodes = {1: NodeInfo(1, rack="a"), 2: NodeInfo(1, rack="b"), 3: NodeInfo(1, rack="a")}
    moved = spread({worker: unit(1, 2) for worker in range(4)}, nodes)
    assert moved
    assert all(each.adding == (3,) and each.removing == (1,) for each in moved.values())


def test_what_is_being_reassigned_stays() -> None:
    moving = begin_reassignment(unit(1), [2])
    nodes = {number: NodeInfo(1) for number in (1, 2, 3)}
    assert 0 not in spread({0: moving, 1: unit(1), 2: unit(1)}, nodes)


@given(st.integers(3, 6), st.lists(st.permutations(range(3)), min_size=1, max_size=12))
def test_it_ends_even_and_loses_no_replica(node_count: int, lists: list[list[int]]) -> None:
    nodes = {number: NodeInfo(1) for number in range(node_count)}
    units = {worker: unit(*replicas[:2]) for worker, replicas in enumerate(lists)}
    moved = spread(units, nodes)
    after = {worker: _target(moved.get(worker, each)) for worker, each in units.items()}
    assert all(len(set(replicas)) == 2 for replicas in after.values())
    load = [sum(number in replicas for replicas in after.values()) for number in nodes]
    assert max(load) - min(load) <= 1


RACKS = st.sampled_from(["", "a", "b", "c"])


@given(
    st.lists(st.tuples(RACKS, st.booleans()), min_size=2, max_size=6),
    st.lists(st.tuples(st.permutations(range(6)), st.integers(1, 3), st.booleans()), max_size=12),
)
def test_it_moves_what_a_look_at_everything_would_move(
    infos: list[tuple[str, bool]], lists: list[tuple[list[int], int, bool]]
) -> None:
    nodes = {
        number: NodeInfo(1, "draining" if leaves and number else "alive", rack)
        for number, (rack, leaves) in enumerate(infos)
    }
    units = {worker: unit(*order[:count]) for worker, (order, count, _) in enumerate(lists)}
    for worker, (order, count, is_moving) in enumerate(lists):
        if is_moving:
            units[worker] = begin_reassignment(units[worker], order[-count:])
    assert spread(units, nodes) == _moved_one_by_one(units, nodes)


def _moved_one_by_one(units: dict[int, Unit], nodes: dict[int, NodeInfo]) -> dict[int, Unit]:
    """From the node with most replicas to the one with fewest, the first worker that may move; again and again."""
    live = sorted(node for node, info in nodes.items() if info.state == "alive")
    planned = {worker: list(each.replicas) for worker, each in units.items()}

    def load(node: int) -> int:
        return sum(node in replicas for replicas in planned.values())

    def may_move(worker: int, old: int, new: int) -> bool:
        replicas, each = planned[worker], units[worker]
        if each.adding or each.removing or old not in replicas or new in replicas or load(old) - load(new) <= 1:
            return False
        racks = [nodes[node].rack for node in replicas if node != old and node in nodes]
        return nodes[new].rack not in racks or nodes[new].rack == nodes[old].rack

    while moves := [
        (-load(old), old, load(new), new, worker)
        for old in live
        for new in live
        for worker in planned
        if may_move(worker, old, new)
    ]:
        _, old, _, new, worker = min(moves)
        planned[worker] = [new if node == old else node for node in planned[worker]]
    changed = {worker: replicas for worker, replicas in planned.items() if tuple(replicas) != units[worker].replicas}
    return {worker: begin_reassignment(units[worker], replicas) for worker, replicas in changed.items()}


class CountedNodes(dict[int, NodeInfo]):
    looks = 0

    def __getitem__(self, node: int) -> NodeInfo:
        self.looks += 1
        return super().__getitem__(node)


def test_four_times_the_units_cost_about_four_times_as_much() -> None:
    def looks(count: int) -> int:
        nodes = CountedNodes({number: NodeInfo(1, rack="abc"[number % 3]) for number in range(12)})
        units = {worker: unit(*((worker + step) % 9 for step in range(3))) for worker in range(count)}
        nodes.looks = 0
        assert spread(units, nodes)
        return nodes.looks

    assert looks(400) < 6 * looks(100)


def test_units_without_a_replica_on_a_node_cost_nothing_when_it_is_removed() -> None:
    nodes = CountedNodes({number: NodeInfo(1) for number in range(10)})
    units = {worker: unit(1, 2, 3) if worker < 3 else unit(4, 5, 6) for worker in range(1000)}
    assert set(moved_off(units, 1, nodes)) == {0, 1, 2}
    assert nodes.looks < 300


def _target(each: Unit) -> list[int]:
    return [node for node in each.replicas if node not in each.removing]
