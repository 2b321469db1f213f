"""Replicas move until all nodes have about as many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cluster.controller import NodeInfo, begin_reassignment
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


def _target(each: Unit) -> list[int]:
    return [node for node in each.replicas if node not in each.removing]
