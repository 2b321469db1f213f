"""Ranges made once from integers and other ranges, against sets."""

from hypothesis import given
from hypothesis import strategies as st

from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import Range, joined, merged, merged_many, ranges_of, size

NUMBERS = st.integers(0, 60)
RANGES = st.lists(st.tuples(NUMBERS, NUMBERS).map(lambda pair: (min(pair), max(pair))), max_size=20)


def members(ranges: list[Range]) -> list[int]:
    return [number for start, stop in ranges for number in range(start, stop)]


@given(st.sets(NUMBERS))
def test_rising_integers_become_as_few_ranges_as_possible(numbers: set[int]) -> None:
    found = ranges_of(sorted(numbers))
    assert members(found) == sorted(numbers)
    assert found == list(IntervalSet((number, number + 1) for number in numbers))
    assert size(found) == len(numbers)


def test_small_gaps_are_read_over() -> None:
    assert ranges_of([1, 2, 4, 9], gap=1) == [(1, 5), (9, 10)]
    assert joined([(1, 3), (4, 5), (9, 10)], gap=1) == [(1, 5), (9, 10)]
    assert joined([(1, 3), (3, 5), (9, 10)]) == [(1, 5), (9, 10)]


def test_the_order_of_the_integers_is_kept() -> None:
    assert ranges_of([5, 6, 1, 2, 7], gap=3) == [(5, 7), (1, 3), (7, 8)]
    assert ranges_of([]) == []


@given(RANGES)
def test_ranges_in_any_order_are_merged(ranges: list[Range]) -> None:
    found = merged(ranges)
    assert found == list(IntervalSet(ranges))
    assert merged_many([each for each in ranges if each[0] < each[1]]) == found
