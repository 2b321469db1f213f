"""What the controller changes: a table of units and nodes, and what becomes of them."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cluster.controller import (
    NodeInfo,
    Nodes,
    begin_reassignment,
    changed_units,
    moved_off,
    new_units,
    next_unit,
    place,
)
from quiver.replication.unit import NOBODY, Unit, decode_unit

UP = NodeInfo(1)
AGAIN = NodeInfo(2)
LEAVING = NodeInfo(1, "draining")
LOST = NodeInfo(2, lost_at=2)
CLEAN_SINCE = NodeInfo(3, lost_at=2)
JOINED = {1: 1, 2: 1, 3: 1}
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
        pytest.param(unit(1, (1,), elr=(2, 3)), ALL, None, id="a leader below the minimum to whom others reply"),
        pytest.param(
            unit(1, (1,), elr=(3, 2), wants_successor=True),
            ALL,
            unit(2, (2,), elr=(1, 3), epoch=8),
            id="none of them replies, and they live",
        ),
        pytest.param(
            unit(1, (1,), elr=(2, 3), wants_successor=True), {1: UP, 2: UP}, None, id="only one of them lives"
        ),
        pytest.param(unit(1, (1,), wants_successor=True), ALL, None, id="none of them has everything"),
        pytest.param(
            unit(1, (1,), elr=(2, 3), wants_successor=True, is_volatile=True, joined=JOINED),
            {1: UP, 2: LOST, 3: UP},
            unit(3, (3,), elr=(1, 2), is_volatile=True, joined=JOINED, epoch=8),
            id="one of them may have lost something",
        ),
        pytest.param(unit(1, (1, 2), wants_successor=True), ALL, None, id="one of them is back"),
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
            unit(1, (1, 2, 3), joined=JOINED),
            {1: LOST, 2: UP, 3: UP},
            unit(1, (1, 2, 3), joined=JOINED, epoch=8, incarnation=2),
            id="what it has confirmed is on its disk",
        ),
        pytest.param(
            unit(1, (1, 2, 3), is_volatile=True, joined=JOINED),
            {1: LOST, 2: UP, 3: UP},
            unit(2, (2, 3), is_volatile=True, joined={2: 1, 3: 1}, epoch=8),
            id="it may have lost what it has confirmed",
        ),
        pytest.param(
            unit(1, (1, 2, 3), is_volatile=True, joined={**JOINED, 1: 2}),
            {1: CLEAN_SINCE, 2: UP, 3: UP},
            unit(1, (1, 2, 3), is_volatile=True, joined={**JOINED, 1: 2}, epoch=8, incarnation=3),
            id="it has joined again since",
        ),
        pytest.param(
            unit(NOBODY, (1, 2), elr=(3,), is_volatile=True, joined=JOINED),
            {1: LOST, 3: CLEAN_SINCE},
            None,
            id="the last one may come back with everything",
        ),
        pytest.param(
            unit(NOBODY, (1, 2), is_volatile=True, joined=JOINED),
            {1: LOST, 2: LOST},
            unit(1, (1, 2), is_volatile=True, joined={1: 2, 2: 2}, epoch=8, incarnation=2, loss_epoch=8),
            id="all have lost something, and nobody has more",
        ),
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
        pytest.param(
            unit(3, (3, 1), replicas=(1, 2, 3), removing=(3,)),
            ALL,
            unit(1, (3, 1), replicas=(1, 2, 3), removing=(3,), epoch=8),
            id="a cancelled one leaves only when enough others are in sync",
        ),
        pytest.param(
            unit(1, (3, 1, 2), replicas=(1, 2, 3), removing=(3,)),
            ALL,
            unit(1, (1, 2), replicas=(1, 2)),
            id="then it leaves",
        ),
        pytest.param(
            unit(3, (2, 3), replicas=(2, 3), removing=(3,), min_isr=1, is_volatile=True, joined=JOINED),
            {2: LOST, 3: UP},
            None,
            id="what is left may have lost something",
        ),
        pytest.param(
            unit(2, (1, 2, 3), is_volatile=True, joined=JOINED),
            {1: LOST, 2: UP, 3: UP},
            None,
            id="the preferred leader may have lost something",
        ),
    ],
)
def test_one_step(before: Unit, nodes: Nodes, after: Unit | None) -> None:
    assert next_unit(before, nodes) == after
    assert changed_units({4: before}, nodes) == ({} if after is None else {4: after})


SETS = st.lists(st.sampled_from((1, 2, 3)), unique=True).map(tuple)


@given(
    SETS,
    SETS,
    st.sampled_from((NOBODY, 1, 2, 3)),
    st.dictionaries(st.sampled_from((1, 2, 3)), st.sampled_from([UP, AGAIN, LEAVING, LOST])),
    st.booleans(),
)
def test_it_comes_to_rest_and_elects_only_who_has_everything(
    isr: tuple[int, ...], elr: tuple[int, ...], leader: int, nodes: Nodes, is_volatile: bool
) -> None:
    others = tuple(node for node in elr if node not in isr)
    current = unit(leader, isr, elr=others, is_volatile=is_volatile, joined=JOINED)
    lost = {node for node, info in nodes.items() if info.lost_at} if is_volatile else set()
    for _ in range(4):
        after = next_unit(current, nodes)
        if after is None:
            break
        has_everything = {*current.isr, *current.elr}
        assert {*after.isr, *after.elr} <= has_everything
        assert after.leader == NOBODY or after.leader in after.isr
        assert after.epoch == current.epoch + 1
        if after.leader in lost and after.joined[after.leader] > current.joined.get(after.leader, 0):
            assert has_everything <= lost
            assert after.loss_epoch == after.epoch
        current = after
    else:
        raise AssertionError("it does not come to rest")
    members = {*current.isr, *current.elr}
    if any(node in nodes and node not in lost for node in members) or (lost and members <= lost):
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
    assert (back.replicas, back.isr, back.adding, back.removing) == ((1, 2, 3, 5), (1, 2, 3, 5), (), (5,))
    assert next_unit(back, ALL) == here, "at once, because enough others are in sync"
    assert begin_reassignment(other, (1, 2, 3)) == here, "it has nothing that counts"


@pytest.mark.parametrize(("isr", "elr"), [((4,), ()), ((4,), (2,)), ((1,), (4,))])
@pytest.mark.parametrize("target", [(1, 2, 3), (5, 2, 3), (1, 4, 5)])
def test_who_may_be_the_only_one_with_everything_stays(
    isr: tuple[int, ...], elr: tuple[int, ...], target: tuple[int, ...]
) -> None:
    moving = unit(isr[0], isr, elr=elr, replicas=(4, 2, 3, 1), adding=(4,), removing=(1,))
    changed = begin_reassignment(moving, target)
    assert (changed.isr, changed.elr, changed.leader) == (isr, elr, isr[0])
    assert {*isr, *elr} <= set(changed.replicas)
    assert (4 in changed.removing) == (4 not in target)
    assert set(changed.replicas) - set(changed.removing) == set(target)
    step = next_unit(changed, dict.fromkeys((1, 2, 3, 4, 5), UP))
    assert step is None or set(isr) <= set(step.isr), "nobody leaves before the target is in sync"
    in_sync = msgspec.structs.replace(changed, isr=changed.replicas, elr=())
    done = next_unit(in_sync, dict.fromkeys((1, 2, 3, 4, 5), UP))
    assert done is not None
    assert (set(done.replicas), set(done.isr), done.leader in target) == (set(target), set(target), True)


TARGETS = st.permutations((1, 2, 3, 4, 5)).map(lambda nodes: tuple(nodes[:3]))


@given(
    st.lists(TARGETS, min_size=1, max_size=4),
    st.lists(st.tuples(st.sets(st.sampled_from((1, 2, 3, 4, 5))), st.booleans()), max_size=4),
)
def test_whatever_operators_change_members_stay_until_enough_of_the_target_have_everything(
    targets: list[tuple[int, ...]], sets: list[tuple[set[int], bool]]
) -> None:
    nodes = dict.fromkeys((1, 2, 3, 4, 5), UP)
    current = unit(1, (1, 2, 3))
    for target, (joining, is_stepped) in zip(targets, sets, strict=False):
        before = current
        current = begin_reassignment(current, target)
        assert (current.isr, current.elr) == (before.isr, before.elr)
        assert {*current.isr, *current.elr} <= set(current.replicas)
        wanted = tuple(node for node in current.replicas if node in joining or node == current.leader)
        current = current.with_set(wanted)
        if is_stepped and (step := next_unit(current, nodes)) is not None:
            assert set(step.isr) <= set(current.isr)
            assert len(step.isr) >= min(len(current.isr), step.min_isr)
            current = step


def test_the_limit_of_a_reassignment_ends_with_it() -> None:
    moving = begin_reassignment(unit(1, (1, 2, 3)), (4, 2, 3), throttle_bytes_per_sec=1000)
    assert decode_unit(moving.key_value).throttle_bytes_per_sec == 1000
    faster = begin_reassignment(moving, (4, 2, 3), throttle_bytes_per_sec=2000)
    assert faster == msgspec.structs.replace(moving, throttle_bytes_per_sec=2000)
    joined = msgspec.structs.replace(faster, isr=(1, 2, 3, 4))
    done = next_unit(joined, dict.fromkeys((1, 2, 3, 4), UP))
    assert done is not None
    assert (done.adding, done.throttle_bytes_per_sec) == ((), 0)
    assert begin_reassignment(moving, (1, 2, 3), throttle_bytes_per_sec=5).throttle_bytes_per_sec == 0, "cancelled"


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


def test_a_new_cluster_spreads_replicas_and_leaders() -> None:
    units = new_units(range(12), {n: NodeInfo(n + 5) for n in range(4)}, replica_count=3, min_isr=2)
    assert len(units) == 12
    for counted in ([unit.replicas[0] for unit in units.values()], [n for u in units.values() for n in u.replicas]):
        assert {counted.count(node) for node in range(4)} == {len(counted) // 4}
    assert units[0].joined == {node: node + 5 for node in units[0].isr}
    led = changed_units(units, {n: NodeInfo(n + 5) for n in range(4)})
    assert all(unit.leader == unit.replicas[0] and unit.epoch == 1 for unit in led.values())
    alone = new_units([0], {7: UP}, replica_count=3, min_isr=2)[0]
    assert (alone.replicas, alone.min_isr) == ((7,), 1)
    assert new_units([0], {}, replica_count=3, min_isr=2) == {}


def test_a_node_is_replaced() -> None:
    placed = {0: (1, 2, 3), 1: (2, 3, 4), 2: (1, 4, 5)}
    units = {worker: unit(nodes[0], nodes, replicas=nodes) for worker, nodes in placed.items()}
    nodes = {2: UP, 3: UP, 4: UP, 5: UP}
    moved = moved_off(units, 1, nodes)
    assert moved.keys() == {0, 2}
    assert (moved[0].replicas, moved[0].adding, moved[0].removing) == ((5, 2, 3, 1), (5,), (1,))
    assert (moved[2].adding, moved[2].removing) == ((2,), (1,))
    assert moved_off({0: unit(1, (1, 2, 3))}, 1, ALL) == {}


def test_fields_of_a_later_version_stay_when_a_unit_is_written() -> None:
    before = unit(1, (1, 2, 3), joined=JOINED)
    fields = msgspec.json.decode(before.key_value)
    assert "later" not in fields
    known = decode_unit(msgspec.json.encode(fields | {"observers": [9], "zone": "x"}))
    assert msgspec.structs.replace(known, later={}) == before == decode_unit(before.key_value)
    elected = changed_units({0: known}, {2: UP, 3: UP})[0]
    written = msgspec.json.decode(elected.with_set((2,)).key_value)
    assert (written["observers"], written["zone"], written["leader"]) == ([9], "x", 2)
