"""How long to wait before the next attempt at something that failed."""

from quiver.system.randomness import Randomness


class Backoff:
    """Pauses that grow by a factor from `first_seconds` up to `longest_seconds`. One per operation that is retried.

    `jitter` is the random part of each pause, so that many operations that failed together are not all retried
    together; it needs a `randomness`.
    """

    __slots__ = ("_factor", "_first", "_jitter", "_longest", "_next", "_randomness", "failures")

    def __init__(
        self,
        first_seconds: float,
        longest_seconds: float,
        *,
        factor: float = 2.0,
        jitter: float = 0.0,
        randomness: Randomness | None = None,
    ) -> None:
        if jitter and randomness is None:
            raise ValueError("jitter needs a randomness")
        self._first, self._longest, self._factor = first_seconds, longest_seconds, factor
        self._jitter, self._randomness = jitter, randomness
        self._next = min(first_seconds, longest_seconds)
        self.failures = 0
        """Attempts that failed since the last one that succeeded."""

    def next_seconds(self) -> float:
        """An attempt failed: how long to wait now. The pause after the next failure is longer."""
        self.failures += 1
        seconds = self._next
        self._next = min(seconds * self._factor, self._longest)
        if self._randomness is not None:
            seconds *= 1.0 - self._jitter * self._randomness.jitter()
        return seconds

    def reset(self) -> None:
        """An attempt succeeded: the next pause is the first again."""
        self.failures = 0
        self._next = min(self._first, self._longest)
