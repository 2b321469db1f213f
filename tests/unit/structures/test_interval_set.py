"""The interval set against a plain set of integers."""

import json
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quiver.structures.interval_set import IntervalSet, Range

bounds = st.integers(-3, 40)
ranges = st.tuples(bounds, bounds)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("add"), bounds, bounds),
        st.tuples(st.just("remove"), bounds, bounds),
        st.tuples(st.just("take_first"), st.integers(-1, 12), st.just(0)),
    ),
    max_size=40,
)


def as_ranges(numbers: Iterable[int]) -> list[Range]:
    found: list[Range] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1] = (found[-1][0], number + 1)
        else:
            found.append((number, number + 1))
    return found


def a_set(numbers: Iterable[int]) -> IntervalSet:
    return IntervalSet((number, number + 1) for number in numbers)


@given(changes)
def test_changes_and_what_they_return(steps: list[tuple[str, int, int]]) -> None:
    held, model = IntervalSet(), set[int]()
    for verb, first, second in steps:
        numbers = set(range(first, second))
        if verb == "add":
            assert held.add(first, second) == len(numbers - model)
            model |= numbers
        elif verb == "remove":
            assert held.remove(first, second) == len(numbers & model)
            model -= numbers
        else:
            smallest = sorted(model)[: max(first, 0)]
            assert held.take_first(first) == as_ranges(smallest)
            model -= set(smallest)
        assert list(held) == as_ranges(model)
        assert len(held) == len(model)
        assert bool(held) == bool(model)
        assert held.range_count == len(as_ranges(model))


@given(st.sets(bounds), ranges)
def test_questions(model: set[int], asked: Range) -> None:
    held = a_set(model)
    start, stop = asked
    inside = set(range(start, stop))
    assert (start in held) == (start in model)
    assert held.overlaps(start, stop) == bool(model & inside)
    assert held.covers(start, stop) == (inside <= model)
    assert held.first_gap(start) == next(number for number in range(start, 100) if number not in model)
    assert held.next_member(start) == min((number for number in model if number >= start), default=None)
    assert list(held.within(start, stop)) == as_ranges(model & inside)
    assert list(held.gaps(start, stop)) == as_ranges(inside - model)


@given(st.sets(bounds), st.sets(bounds))
def test_equal_sets_are_equal_whatever_their_history(left: set[int], right: set[int]) -> None:
    assert (a_set(left) == a_set(right)) == (left == right)
    other_way = IntervalSet([(-10, 50)])
    for number in set(range(-10, 50)) - left:
        other_way.remove(number, number + 1)
    assert other_way == a_set(left)
    other_way.clear()
    assert other_way == IntervalSet()
    assert not other_way


@given(st.sets(st.integers(-(2**62), 2**62) | bounds))
def test_an_encoded_set_comes_back(model: set[int]) -> None:
    held = a_set(model)
    encoded = json.loads(json.dumps(held.encode()))
    decoded = IntervalSet.decode(encoded)
    assert decoded == held == IntervalSet.unpack(held.pack())
    assert len(decoded) == len(model) == len(IntervalSet.unpack(held.pack()))
    decoded.add(5, 9)
    held.add(5, 9)
    assert decoded == held


@given(st.lists(st.integers(-5, 5) | st.integers(2**62, 2**64), max_size=6))
@example([1])
@example([1, 0])
@example([1, 2, 0, 1])
@example([2**62, 2**62])
def test_what_decodes_is_what_encode_writes(numbers: list[int]) -> None:
    try:
        decoded = IntervalSet.decode(numbers)
    except ValueError:
        return
    assert decoded.encode() == numbers
    assert len(decoded) == sum(stop - start for start, stop in decoded)


def test_encoded_distances_are_small_numbers() -> None:
    base = 10**12
    held = IntervalSet((base + 10 * index, base + 10 * index + 4) for index in range(100))
    assert held.encode() == [base, 4, *[6, 4] * 99]


@pytest.mark.parametrize(("start", "stop"), [(2**63, 2**63 + 1), (0, 2**64), (-(2**64), 0)])
def test_a_number_beyond_64_bits_changes_nothing(start: int, stop: int) -> None:
    held = IntervalSet([(1, 3), (5, 8)])
    with pytest.raises(OverflowError):
        held.add(start, stop)
    assert list(held) == [(1, 3), (5, 8)]
    assert len(held) == 5
    assert start not in held


def test_a_range_costs_little_memory() -> None:
    count = 100_000
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        held = IntervalSet((3 * index, 3 * index + 1) for index in range(count))
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert held.range_count == count
    assert used / count < 32
