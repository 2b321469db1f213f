"""What the controller changes: a table of units and nodes, and what becomes of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cluster.controller import NodeInfo, Nodes, begin_reassignment, changed_units, next_unit, place
from quiver.replication.unit import NOBODY, Unit

UP = NodeInfo(1)
AGAIN = NodeInfo(2)
LEAVING = NodeInfo(1, "draining")
ALL: Nodes = {1: UP, 2: UP, 3: UP}


def unit(leader: int, isr: tuple[int, ...], **fields: object) -> Unit:
    given = {"replicas": (1, 2, 3), "min_isr": 2, "epoch": 7, "incarnation": 0 if leader == NOBODY else 1}
    return Unit(leader=leader, isr=isr, **(given | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "nodes", "after"),
    [
        pytest.param(unit(1, (1, 2, 3)), ALL, None, id="all is well"),
        pytest.param(unit(1, (1, 2, 3)), {1: UP, 2: UP}, None, id="a follower is gone: its leader shrinks the set"),
        pytest.param(unit(1, (1, 2, 3)), {2: UP, 3: UP}, unit(2, (2, 3), epoch=8), id="the leader is gone"),
        pytest.param(
            unit(1, (1, 2, 3)), {3: UP}, unit(3, (3,), elr=(1, 2), epoch=8), id="only one of the set is left"
        ),
        pytest.param(
            unit(1, (1, 2, 3)),
            {1: AGAIN, 2: UP, 3: UP},
            unit(1, (1, 2, 3), epoch=8, incarnation=2),
            id="the leader was started again",
        ),
        pytest.param(unit(2, (2, 3)), ALL, None, id="the preferred leader is not in sync"),
        pytest.param(unit(2, (1, 2, 3)), ALL, unit(1, (1, 2, 3), epoch=8), id="the preferred leader is back"),
        pytest.param(
            unit(1, (1,), elr=(2,)), {2: UP, 3: UP}, unit(2, (2,), elr=(1,), epoch=8), id="an eligible leader"
        ),
        pytest.param(unit(1, (1,)), {2: UP, 3: UP}, unit(NOBODY, (1,), epoch=8), id="nobody has everything"),
        pytest.param(unit(NOBODY, (1,)), {2: UP, 3: UP}, None, id="nobody has everything yet"),
        pytest.param(unit(NOBODY, (1,)), {1: AGAIN}, unit(1, (1,), epoch=8, incarnation=2), id="it is back"),
        pytest.param(
            unit(1, (1, 2, 3)),
            {1: LEAVING, 2: UP, 3: UP},
            unit(2, (1, 2, 3), epoch=8),
            id="a node that is drained gives its leadership away",
        ),
        pytest.param(unit(1, (1,)), {1: LEAVING, 2: UP}, None, id="unless nobody else is in sync"),
        pytest.param(unit(2, (1, 2)), {1: LEAVING, 2: UP}, None, id="and gets none back"),
        pytest.param(
            unit(1, (1, 2), replicas=(2, 3, 1), adding=(3,), removing=(1,)),
            ALL,
            unit(2, (1, 2), replicas=(2, 3, 1), adding=(3,), removing=(1,), epoch=8),
            id="a reassignment waits for its new replica",
        ),
        pytest.param(
            unit(1, (1, 2, 3), replicas=(2, 3, 1), adding=(3,), removing=(1,)),
            ALL,
            unit(2, (2, 3), replicas=(2, 3), epoch=8),
            id="a reassignment ends, and its leader was removed",
        ),
        pytest.param(
            unit(2, (1, 2, 3), replicas=(2, 3, 1), adding=(3,), removing=(1,)),
            ALL,
            unit(2, (2, 3), replicas=(2, 3)),
            id="a reassignment ends, and its leader stays",
        ),
    ],
)
def test_one_step(before: Unit, nodes: Nodes, after: Unit | None) -> None:
    assert next_unit(before, nodes) == after
    assert changed_units({"u": before}, nodes) == ({} if after is None else {"u": after})


SETS = st.lists(st.sampled_from((1, 2, 3)), unique=True).map(tuple)


@given(
    SETS,
    SETS,
    st.sampled_from((NOBODY, 1, 2, 3)),
    st.dictionaries(st.sampled_from((1, 2, 3)), st.sampled_from([UP, AGAIN, LEAVING])),
)
def test_it_comes_to_rest_and_elects_only_who_has_everything(
    isr: tuple[int, ...], elr: tuple[int, ...], leader: int, nodes: Nodes
) -> None:
    current = unit(leader, isr, elr=tuple(node for node in elr if node not in isr))
    for _ in range(4):
        after = next_unit(current, nodes)
        if after is None:
            break
        has_everything = {*current.isr, *current.elr}
        assert {*after.isr, *after.elr} <= has_everything
        assert after.leader == NOBODY or after.leader in after.isr
        assert after.epoch == current.epoch + 1
        current = after
    else:
        raise AssertionError("it does not come to rest")
    if any(node in nodes for node in {*current.isr, *current.elr}):
        assert current.leader in nodes
        assert nodes[current.leader].incarnation == current.incarnation


def test_a_reassignment_begins_changes_its_mind_and_is_cancelled() -> None:
    here = unit(1, (1, 2, 3))
    moving = begin_reassignment(here, (4, 2, 3))
    assert (moving.replicas, moving.adding, moving.removing) == ((4, 2, 3, 1), (4,), (1,))
    other = begin_reassignment(moving, (5, 2, 3))
    assert (other.replicas, other.adding, other.removing) == ((5, 2, 3, 1), (5,), (1,))
    joined = msgspec.structs.replace(other, isr=(1, 2, 3, 5))
    back = begin_reassignment(joined, (1, 2, 3))
    assert (back.replicas, back.isr, back.adding, back.removing) == ((1, 2, 3), (1, 2, 3), (), ())


def test_replicas_are_spread_over_racks_and_nodes() -> None:
    nodes = {n: NodeInfo(1, rack=rack) for n, rack in enumerate("aaabbc")}
    assert place(3, nodes, {0: 5, 3: 1}) == (1, 4, 5)
    assert place(5, nodes, {}) == (0, 3, 5, 1, 4)
    assert place(3, {1: UP, 2: LEAVING}, {}) == (1,)
    load: dict[int, int] = {}
    for _ in range(60):
        for node in place(3, nodes, load):
            load[node] = load.get(node, 0) + 1
    assert load[5] == 60
    assert load[3] == load[4] == 30
    assert load[0] == load[1] == load[2] == 20
