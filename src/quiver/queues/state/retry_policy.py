"""When messages that are given back are delivered again, and when a group gives them up. Pure."""

from typing import NamedTuple

from quiver.model.queue import QueueSettings

_MOST_DOUBLINGS = 40
"""Beyond any backoff that can be set, and far from numbers that cost memory."""


class RetryPolicy(NamedTuple):
    """What holds for the messages of one nack."""

    settings: QueueSettings
    now_ms: int
    jitter: float = 1.0
    """The group's backoff is multiplied by it: 0.5 to 1."""
    delay_ms: int | None = None
    """Asked for instead of the group's backoff."""
    is_counted: bool = True
    """Whether the delivery counts as an attempt."""
    error: str = ""

    def is_last(self, attempts: int) -> bool:
        """Whether messages with so many counted attempts, this one included, are given up."""
        return self.is_counted and attempts >= self.settings.max_attempts

    def due_ms(self, attempts: int) -> int:
        """When messages with so many counted attempts are delivered again."""
        if self.delay_ms is not None:
            return self.now_ms + self.delay_ms
        doublings = min(max(attempts - 1, 0), _MOST_DOUBLINGS)
        backoff_ms = min(self.settings.backoff_ms << doublings, self.settings.backoff_max_ms)
        return self.now_ms + round(backoff_ms * self.jitter)
