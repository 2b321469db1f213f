"""How late messages come, as a histogram. Pure."""

from bisect import bisect_left

_BOUNDS_MS = sorted({0, *(round(1.25**step) for step in range(96))})
"""Up to about two weeks, a quarter more from step to step."""


class Lateness:
    """Percentiles are exact to a quarter; `max_ms` is exact."""

    def __init__(self) -> None:
        self.count = 0
        self.max_ms = 0
        self._counts = [0] * (len(_BOUNDS_MS) + 1)

    def note(self, late_ms: int, count: int = 1) -> None:
        late_ms = max(late_ms, 0)
        self.count += count
        self.max_ms = max(self.max_ms, late_ms)
        self._counts[bisect_left(_BOUNDS_MS, late_ms)] += count

    def add(self, other: "Lateness") -> None:
        self.count += other.count
        self.max_ms = max(self.max_ms, other.max_ms)
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]

    def percentile_ms(self, share: float) -> int:
        """The lateness that this share of the messages did not exceed; 0 when there were none."""
        wanted = share * self.count
        seen = 0
        for bound, count in zip([*_BOUNDS_MS, self.max_ms], self._counts, strict=True):
            seen += count
            if count and seen >= wanted:
                return min(bound, self.max_ms)
        return 0
