"""Histograms of milliseconds with buckets that grow: exact up to 100 ms, within 1 % above. Pure."""

import math

import msgspec
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
ERROR = 0.01
"""A percentile is at most so far from the value that it stands for, in proportion to it."""
_LONGEST_MS = 100 * 365 * 86_400_000


def _edges() -> Integers:
    """Where buckets begin. No value of one is further from the one in the middle than the error allows."""
    edges = [0]
    while edges[-1] < _LONGEST_MS:
        edges.append(edges[-1] + 2 * max(0, math.floor((edges[-1] - 1) * ERROR)) + 1)
    return np.array(edges, np.int64)


_EDGES = _edges()
BUCKETS = len(_EDGES)


def buckets_of(values: Integers) -> Integers:
    """The bucket of each of the values; those below 0 are in the first, as the clock may have been put back."""
    found: Integers = np.clip(_EDGES.searchsorted(values, side="right") - 1, 0, BUCKETS - 1)
    return found


def value_of(bucket: int) -> int:
    """What stands for all values of a bucket: the one in the middle."""
    low = int(_EDGES[bucket])
    high = int(_EDGES[bucket + 1]) - 1 if bucket + 1 < BUCKETS else low
    return (low + high) // 2


class Percentiles(msgspec.Struct, frozen=True):
    """In milliseconds."""

    count: int
    p50: int
    p90: int
    p99: int
    p999: int
    max: int


SHARES = (0.5, 0.9, 0.99, 0.999)
NOTHING = Percentiles(0, 0, 0, 0, 0, 0)


class Histogram:
    """How many values are in each bucket, and the largest of all of them."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0
        self.max = 0

    def add(self, bucket: int, count: int, highest: int) -> None:
        self._counts[bucket] = self._counts.get(bucket, 0) + count
        self.count += count
        self.max = max(self.max, highest)

    def percentiles(self) -> Percentiles:
        """Of n values, the part q is the one at place ceil(q * n) in their order; the maximum is exact."""
        if not self.count:
            return NOTHING
        found: list[int] = []
        passed = 0
        ranks = [math.ceil(part * self.count) for part in SHARES]
        for bucket in sorted(self._counts):
            passed += self._counts[bucket]
            while len(found) < len(ranks) and ranks[len(found)] <= passed:
                found.append(min(value_of(bucket), self.max))
        p50, p90, p99, p999 = found
        return Percentiles(self.count, p50, p90, p99, p999, self.max)
