"""How long things took, counted in fixed buckets: one comparison and two additions per observation."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

LATENCY_SECONDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of buckets for work that the broker does."""
WAIT_SECONDS = (0.001, 0.004, 0.016, 0.064, 0.25, 1.0, 4.0, 15.0, 60.0, 240.0, 900.0, 3600.0, 14400.0, 86400.0)
"""The upper bounds of buckets for what waits for consumers."""


class Exemplar(NamedTuple):
    """One request among those of a bucket."""

    trace_id: str
    value: float
    time_ms: int


class Histogram:
    """Hot paths do what `observe` does themselves, without the call."""

    __slots__ = ("bounds", "counts", "exemplars", "sum")

    def __init__(self, bounds: Sequence[float] = LATENCY_SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """By bucket; the last has what is above every bound."""
        self.sum = 0.0
        self.exemplars: dict[int, Exemplar] = {}
        """By bucket, the last request that was traced."""

    def observe(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count

    def add(self, other: "Histogram") -> None:
        for place, count in enumerate(other.counts):
            self.counts[place] += count
        self.sum += other.sum

    def trace(self, value: float, trace_id: str, time_ms: int) -> None:
        """The request that was observed with this value is traced."""
        self.exemplars[bisect_left(self.bounds, value)] = Exemplar(trace_id, value, time_ms)

    @property
    def count(self) -> int:
        return sum(self.counts)


def quantile(bounds: Sequence[float], counts: Sequence[int], share: float) -> float:
    """The value that a share of the observations does not exceed, as far as the buckets tell; 0 without any."""
    wanted, passed = sum(counts) * share, 0
    for place, count in enumerate(counts):
        if count and passed + count >= wanted:
            if place == len(bounds):
                break
            below = bounds[place - 1] if place else 0.0
            return below + (bounds[place] - below) * (wanted - passed) / count
        passed += count
    return bounds[-1] if any(counts) else 0.0
