"""Deadlines of groups: each is taken once, when it has passed."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.groups.deadlines import Deadlines

NOTES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=30)


def taken(deadlines: Deadlines, now_ms: int) -> list[str]:
    found = []
    while (group := deadlines.take(now_ms)) is not None:
        found.append(group)
    return found


def test_a_group_is_taken_once_and_only_when_its_deadline_has_passed():
    deadlines = Deadlines()
    deadlines.note("a", 10)
    assert taken(deadlines, 10) == []
    assert taken(deadlines, 11) == ["a"]
    assert taken(deadlines, 99) == []


def test_a_nearer_deadline_counts_and_a_later_one_does_not():
    deadlines = Deadlines()
    for at_ms in (10, 5, 20):
        deadlines.note("a", at_ms)
    assert taken(deadlines, 6) == ["a"]
    assert taken(deadlines, 99) == []


def test_a_group_without_a_deadline_is_never_taken():
    deadlines = Deadlines()
    deadlines.note("a", None)
    assert taken(deadlines, 99) == []


@given(rounds=st.lists(st.tuples(NOTES, st.integers(0, 25)), max_size=6))
def test_like_a_mapping_of_groups_to_their_nearest_deadlines(rounds):
    deadlines, model = Deadlines(), {}
    for notes, now_ms in rounds:
        for group, at_ms in notes:
            deadlines.note(group, at_ms)
            model[group] = min(at_ms, model.get(group, at_ms))
        due = {group for group, at_ms in model.items() if at_ms < now_ms}
        found = taken(deadlines, now_ms)
        assert sorted(found) == sorted(due)
        model = {group: at_ms for group, at_ms in model.items() if group not in due}
