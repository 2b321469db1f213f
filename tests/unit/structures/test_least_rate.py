from quiver.structures.least_rate import LeastRate

SPAN = {"span_seconds": 10.0, "per_second": 100.0}


def test_a_whole_span_below_the_rate_is_too_slow() -> None:
    rate = LeastRate()
    seen = [rate.is_missed(now, now * 99, due=True, **SPAN) for now in range(25)]
    assert [now for now, missed in enumerate(seen) if missed] == [10, 20]


def test_a_burst_does_not_count_for_the_next_span() -> None:
    rate = LeastRate()
    assert not rate.is_missed(0, 0, due=True, **SPAN)
    assert not rate.is_missed(10, 1_000_000, due=True, **SPAN)
    assert rate.is_missed(20, 1_000_010, due=True, **SPAN)


def test_time_in_which_nothing_is_due_does_not_count() -> None:
    rate = LeastRate()
    assert not rate.is_missed(0, 0, due=True, **SPAN)
    assert not rate.is_missed(9, 0, due=False, **SPAN)
    assert not rate.is_missed(18, 0, due=True, **SPAN)
    assert not rate.is_missed(27, 0, due=True, **SPAN)
    assert rate.is_missed(28, 0, due=True, **SPAN)


def test_without_a_rate_nothing_at_all_is_still_too_slow() -> None:
    rate = LeastRate()
    assert not rate.is_missed(0, 0, due=True, span_seconds=1, per_second=0)
    assert not rate.is_missed(1, 1, due=True, span_seconds=1, per_second=0)
    assert rate.is_missed(2, 1, due=True, span_seconds=1, per_second=0)
