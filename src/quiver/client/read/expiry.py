"""Readers leave out messages that are past their time to live. The broker's clock decides, not the reader's."""

from typing import NamedTuple


class Expiry(NamedTuple):
    """What the broker says with an answer. From then on its time follows the reader's monotonic clock."""

    zero_ms: float
    """The broker's time when the monotonic clock was at zero."""
    ttl_ms: int | None
    """Of the topic."""

    def now_ms(self, monotonic: float) -> int:
        return int(self.zero_ms + monotonic * 1000)


def expiry_of(broker_ms: int, arrived_at: float, ttl_ms: int | None) -> Expiry | None:
    """For an answer that arrived at a time of the monotonic clock; None where the broker names no time."""
    return Expiry(broker_ms - arrived_at * 1000, ttl_ms) if broker_ms else None
