"""What the members of a group saw becomes times to settle and gaps in reading."""

import pytest
from benchmarks.workloads.streams.reading import Phases, Reading, gaps, seconds_to_settle


def test_a_join_settles_with_the_last_partition_received_and_a_leave_with_the_last_taken_over():
    moving = Reading(joined_at=10.0, left_at=20.0, assigned=[(10.1, 0), (10.3, 1)])
    staying = [Reading(assigned=[(1.0, 0), (20.2, 1)]), Reading(assigned=[(1.0, 1), (20.5, 0)])]
    assert seconds_to_settle([moving], staying) == pytest.approx([0.3, 0.5])


def test_a_partition_that_nobody_took_over_is_an_error():
    moving = Reading(joined_at=10.0, left_at=20.0, assigned=[(10.1, 0)])
    with pytest.raises(RuntimeError, match="0"):
        seconds_to_settle([moving], [Reading(assigned=[(1.0, 0)])])


def test_gaps_are_of_quiet_times_of_partitions_that_stay_and_of_those_that_move():
    one = Reading(assigned=[(0.0, 7), (0.0, 8)], arrivals=[(1.0, 7), (1.5, 7), (6.0, 7), (6.1, 8)])
    other = Reading(assigned=[(6.5, 7)], arrivals=[(6.7, 7), (99.0, 7)])
    found = gaps([one, other], Phases(quiet_from=0.5, changes_from=5.0, end=10.0))
    assert found.quiet == [0.5]
    assert found.staying == [4.5]
    assert found.moving == pytest.approx([0.7])
