"""When a stream waits for more messages before it begins a batch."""

from quiver.system.clock import Clock


class BatchDelay:
    """Waits for `min_rows`, but no longer than `longest_seconds` after the last batch; the first never waits."""

    def __init__(self, min_rows: int, longest_seconds: float, clock: Clock) -> None:
        self._min_rows = min_rows
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._last_at: float | None = None

    def waits(self, rows: int) -> bool:
        """Whether a batch of the rows that are there is too early. If not, it begins now."""
        now = self._clock.monotonic()
        is_late = self._last_at is None or now - self._last_at >= self._longest_seconds
        if rows < self._min_rows and not is_late:
            return True
        if rows:
            self._last_at = now
        return False
