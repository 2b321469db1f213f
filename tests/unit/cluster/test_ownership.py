"""Which broker runs which worker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.cluster.ownership import Assignment, Assignments, changed_assignments, handed_over

A, B, C = "a", "b", "c"


@pytest.mark.parametrize(
    ("nodes", "current", "changes"),
    [
        pytest.param({A}, {}, {0: (A, 1), 1: (A, 1), 2: (A, 1), 3: (A, 1)}, id="the first broker gets all"),
        pytest.param({A, B}, {}, {0: (A, 1), 1: (B, 1), 2: (A, 1), 3: (B, 1)}, id="two begin together"),
        pytest.param(set(), {0: (A, 1), 1: (A, 1), 2: (A, 1), 3: (A, 1)}, {}, id="nobody is alive"),
        pytest.param({A}, {0: (A, 1), 1: (A, 1), 2: (A, 1), 3: (A, 1)}, {}, id="nothing to do"),
        pytest.param(
            {A, B}, {0: (A, 1), 1: (A, 1), 2: (A, 1), 3: (A, 1)}, {2: (A, 1, B), 3: (A, 1, B)}, id="one joins"
        ),
        pytest.param({B}, {0: (A, 1), 1: (A, 4), 2: (B, 2), 3: (B, 2)}, {0: (B, 2), 1: (B, 5)}, id="one is gone"),
        pytest.param(
            {B, C}, {0: (A, 1), 1: (A, 1), 2: (B, 2), 3: (C, 2)}, {0: (B, 2), 1: (C, 2)}, id="one of three is gone"
        ),
        pytest.param(
            {A}, {0: (A, 1), 1: (A, 1), 2: (A, 1, B), 3: (B, 2)}, {2: (A, 1), 3: (A, 3)}, id="the successor is gone"
        ),
        pytest.param({B}, {0: (A, 1, B), 1: (B, 1), 2: (B, 1), 3: (B, 1)}, {0: (B, 2)}, id="gone while handing over"),
        pytest.param(
            {A, B}, {0: (A, 1), 1: (A, 1), 2: (A, 1, B), 3: (B, 2)}, {}, id="what is on its way counts as there"
        ),
    ],
)
def test_the_controller_changes(
    nodes: set[str], current: dict[int, tuple[str, int]], changes: dict[int, tuple[str, int]]
) -> None:
    assignments = {worker: Assignment(*values) for worker, values in current.items()}
    expected = {worker: Assignment(*values) for worker, values in changes.items()}
    assert changed_assignments(nodes, 4, assignments) == expected


def test_a_worker_that_was_handed_over_has_the_next_epoch() -> None:
    assert handed_over(Assignment(A, 3, B)) == Assignment(B, 4)


_NODES = st.sets(st.sampled_from([A, B, C, "d"]), min_size=1)
_ASSIGNMENTS = st.builds(
    Assignment, st.sampled_from([A, B, C, "d"]), st.integers(1, 9), st.sampled_from(["", A, B, C, "d"])
).map(lambda each: each._replace(next_node="") if each.next_node == each.node else each)


@given(_NODES, st.integers(1, 16), st.data())
def test_whatever_there_was_becomes_balanced_and_then_stays(
    nodes: set[str], workers: int, data: st.DataObject
) -> None:
    keys = st.integers(0, workers - 1)
    current: Assignments = data.draw(st.dictionaries(keys, _ASSIGNMENTS))
    after = {**current, **changed_assignments(nodes, workers, current)}

    assert set(after) == set(range(workers))
    assert all(each.node in nodes and each.node != each.next_node for each in after.values())
    for worker, before in current.items():
        moved = after[worker].node != before.node
        assert moved == (before.node not in nodes)  # a broker that is alive gives its workers away itself
        assert after[worker].epoch == before.epoch + moved
    assert changed_assignments(nodes, workers, after) == {}

    done = {worker: handed_over(each) if each.next_node else each for worker, each in after.items()}
    loads = [sum(each.node == node for each in done.values()) for node in nodes]
    assert max(loads) - min(loads) <= 1
    assert changed_assignments(nodes, workers, done) == {}


@pytest.mark.parametrize(
    ("nodes", "draining", "current", "changes"),
    [
        pytest.param(
            {A, B},
            {B},
            {0: (A, 1), 1: (A, 1), 2: (B, 1), 3: (B, 1)},
            {2: (B, 1, A), 3: (B, 1, A)},
            id="it hands over everything",
        ),
        pytest.param(
            {A, B}, {B}, {0: (A, 1), 1: (A, 1), 2: (A, 2), 3: (A, 2)}, {}, id="it gets nothing while it drains"
        ),
        pytest.param({A}, {A}, {0: (A, 1), 1: (A, 1), 2: (A, 2), 3: (A, 2)}, {}, id="there is nobody else"),
        pytest.param(
            {A, B, C},
            {C},
            {0: (A, 1), 1: (B, 1), 2: (A, 1, C), 3: (C, 1)},
            {2: (A, 1), 3: (C, 1, B)},
            id="what was on its way there stays",
        ),
    ],
)
def test_a_broker_that_drains(
    nodes: set[str], draining: set[str], current: dict[int, tuple[str, int]], changes: dict[int, tuple[str, int]]
) -> None:
    assignments = {worker: Assignment(*values) for worker, values in current.items()}
    expected = {worker: Assignment(*values) for worker, values in changes.items()}
    assert changed_assignments(nodes, 4, assignments, draining) == expected
