"""Whether something is fast enough: a count must rise by a least amount in every period. Pure."""


class LeastRate:
    """Checked from time to time with the count so far; the period starts again whenever nothing is due."""

    __slots__ = ("_count", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._count = 0

    def is_missed(self, now: float, count: int, *, due: bool, span_seconds: float, per_second: float) -> bool:
        """True if in a whole period in which more was due the count rose by less than `per_second` on average, or not
        at all."""
        if not due:
            self._since = None
            return False
        if self._since is None:
            self._since, self._count = now, count
            return False
        elapsed = now - self._since
        if elapsed < span_seconds:
            return False
        risen = count - self._count
        self._since, self._count = now, count
        return risen < max(1.0, per_second * elapsed)
