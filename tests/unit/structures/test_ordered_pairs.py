"""Ordered pairs against a sorted list."""

from bisect import bisect_left, insort
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver.structures import ordered_pairs
from quiver.structures.ordered_pairs import LOWEST, OrderedPairs

numbers = st.integers(0, 12) | st.sampled_from([-(1 << 62), (1 << 62)])
pairs = st.tuples(numbers, numbers)
steps = st.one_of(
    st.tuples(st.just("add"), pairs),
    st.tuples(st.just("remove"), pairs),
    st.tuples(st.just("pop"), numbers),
    st.tuples(st.just("extend"), st.lists(pairs, max_size=30, unique=True)),
    st.tuples(st.just("clear"), st.none()),
)


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    """Chunks that are split, filled up and joined after a few pairs."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("_MOST", 8), ("_HALF", 4), ("_FEW", 2), ("_SINGLY", 2)):
            patch.setattr(ordered_pairs, name, value)
        yield


def carry_out(kept: OrderedPairs, model: list[tuple[int, int]], verb: str, what: object) -> None:
    match verb, what:
        case "add", (first, second) if what not in model:
            kept.add(first, second)
            insort(model, what)
        case "remove", (first, second):
            assert kept.remove(first, second) == (what in model)
            if what in model:
                model.remove(what)
        case "pop", int():
            found = next((pair for pair in model if pair[0] == what), None)
            assert kept.pop(what) == (None if found is None else found[1])
            if found is not None:
                model.remove(found)
        case "extend", list():
            new = [pair for pair in what if pair not in model]
            columns = np.array(new, np.int64).reshape(-1, 2)
            kept.extend(columns[:, 0], columns[:, 1])
            model[:] = sorted([*model, *new])
        case "clear", _:
            kept.clear()
            model.clear()


@settings(max_examples=400)
@given(st.lists(steps, max_size=40), pairs, st.integers(0, 40), st.integers(0, 40))
def test_it_is_a_sorted_set(actions, pair, start, count):
    kept, model = OrderedPairs(), []
    for verb, what in actions:
        carry_out(kept, model, verb, what)
        assert len(kept) == len(model)
    assert list(kept) == model
    first, second = pair
    at = bisect_left(model, pair)
    assert kept.rank(first, second) == at
    assert kept.rank(first) == bisect_left(model, (first, LOWEST))
    assert kept.starting_at(first, second, count) == model[at : at + count]
    firsts, seconds = kept.columns(first, second, count)
    assert list(zip(firsts.tolist(), seconds.tolist(), strict=True)) == model[at : at + count]
    assert kept.slice(start, start + count) == model[start : start + count]
    assert kept.find(first) == next((each[1] for each in model if each[0] == first), None)
    assert (pair in kept) == (pair in model)


def test_many_pairs_with_the_same_first_lie_in_many_chunks():
    kept = OrderedPairs()
    kept.extend(np.zeros(100, np.int64), np.arange(100))
    kept.extend(np.array([-1, 1]), np.array([5, 5]))
    assert kept.find(0) == 0
    assert kept.slice(50, 53) == [(0, 49), (0, 50), (0, 51)]
    assert [kept.pop(0) for _ in range(101)] == [*range(100), None]
    assert list(kept) == [(-1, 5), (1, 5)]


def test_what_was_removed_leaves_no_chunks_behind():
    kept = OrderedPairs()
    kept.extend(np.arange(1000), np.arange(1000))
    for number in range(1000):
        if number % 100:
            assert kept.remove(number, number)
    assert list(kept) == [(number, number) for number in range(0, 1000, 100)]
    assert len(kept._chunks) <= 5
