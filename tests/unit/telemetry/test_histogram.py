import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver.telemetry.histogram import LATENCY_SECONDS, WAIT_SECONDS, Histogram, quantile


def test_a_value_counts_in_the_bucket_whose_bound_it_does_not_exceed() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.0, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert (histogram.counts, histogram.sum, histogram.count) == ([2, 2, 1], 13.5, 5)


def test_several_observations_of_one_value_are_one_call() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(1.5, 1000)
    assert (histogram.counts, histogram.sum) == ([0, 1000, 0], 1500.0)


def test_without_observations_a_quantile_is_zero() -> None:
    assert quantile(LATENCY_SECONDS, [0] * 16, 0.99) == 0.0


@given(st.lists(st.floats(0, 20, allow_nan=False), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_in_the_bucket_of_the_value_at_its_place(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    found = quantile(histogram.bounds, histogram.counts, share)
    exact = sorted(values)[max(0, -(-len(values) * share // 1).__int__() - 1)]
    upper = next((bound for bound in histogram.bounds if exact <= bound), histogram.bounds[-1])
    lower = max((bound for bound in histogram.bounds if bound < upper), default=0.0)
    assert lower <= found <= upper + 1e-9


@pytest.mark.parametrize("bounds", [LATENCY_SECONDS, WAIT_SECONDS])
def test_bounds_rise(bounds: tuple[float, ...]) -> None:
    assert list(bounds) == sorted(set(bounds))
