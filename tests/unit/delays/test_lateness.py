"""How late messages come."""

import pytest

from quiver.delays.partition.due_moves import Lateness


def test_nothing_is_not_late():
    assert Lateness().percentile_ms(0.99) == 0


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99, 1.0])
def test_percentiles_are_exact_to_a_quarter(share):
    lateness = Lateness()
    for late_ms in range(1, 1001):
        lateness.note(late_ms)
    exact = share * 1000
    assert exact <= lateness.percentile_ms(share) <= exact * 1.25
    assert lateness.max_ms == 1000


def test_what_is_early_by_the_clock_is_not_late():
    lateness = Lateness()
    lateness.note(-5)
    lateness.note(10**12)
    assert (lateness.percentile_ms(0.5), lateness.percentile_ms(1), lateness.count) == (0, 10**12, 2)


def test_partitions_are_added_up():
    one, other = Lateness(), Lateness()
    one.note(1, 9)
    other.note(500)
    one.add(other)
    assert (one.count, one.max_ms, one.percentile_ms(0.9), one.percentile_ms(1)) == (10, 500, 1, 500)
