"""Deadlines: each key is taken once, when its deadline has passed."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.structures.deadlines import Deadlines

NOTES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20)), max_size=30)


def taken(deadlines: Deadlines, now_ms: int) -> list[str]:
    found = []
    while (key := deadlines.take(now_ms)) is not None:
        found.append(key)
    return found


def test_a_key_is_taken_once_and_only_when_its_deadline_has_passed():
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


def test_a_key_without_a_deadline_is_never_taken():
    deadlines = Deadlines()
    deadlines.note("a", None)
    assert taken(deadlines, 99) == []


def test_what_is_forgotten_is_not_taken():
    deadlines = Deadlines()
    deadlines.note("a", 10)
    deadlines.note("b", 10)
    deadlines.forget("a")
    deadlines.forget("c")
    assert taken(deadlines, 99) == ["b"]
    deadlines.note("a", 100)
    assert taken(deadlines, 199) == ["a"]


def test_keys_that_come_and_go_leave_nothing():
    deadlines = Deadlines()
    deadlines.note(0, 1_000_000)
    for number in range(1, 10_000):
        deadlines.note(number, 1_000_000)
        deadlines.forget(number)
    assert len(deadlines) < 100


def test_deadlines_that_were_replaced_leave_nothing():
    """As of a partition with a message that is due in years, and others that are due soon."""
    deadlines = Deadlines()
    for now_ms in range(10_000):
        deadlines.note("a", 1_000_000)
        deadlines.note("a", now_ms)
        assert taken(deadlines, now_ms + 1) == ["a"]
    assert len(deadlines) < 100


@given(rounds=st.lists(st.tuples(NOTES, st.integers(0, 25)), max_size=6))
def test_like_a_mapping_of_keys_to_their_nearest_deadlines(rounds):
    deadlines, model = Deadlines(), {}
    for notes, now_ms in rounds:
        for key, at_ms in notes:
            deadlines.note(key, at_ms)
            model[key] = min(at_ms, model.get(key, at_ms))
        due = {key for key, at_ms in model.items() if at_ms < now_ms}
        found = taken(deadlines, now_ms)
        assert sorted(found) == sorted(due)
        model = {key: at_ms for key, at_ms in model.items() if key not in due}
