"""Readers leave out expired messages. The broker's clock decides, not the reader's."""

from typing import NamedTuple


class Expiry(NamedTuple):
    """The broker's time in a response. From then on it advances with the reader's monotonic clock."""

    zero_ms: float
    """The broker's time when the monotonic clock was at zero."""
    ttl_ms: int | None
    """The topic's time to live."""

    def now_ms(self, monotonic: float) -> int:
        return int(self.zero_ms + monotonic * 1000)


def expiry_of(broker_ms: int, arrived_at: float, ttl_ms: int | None) -> Expiry | None:
    """For a response that arrived at a time of the monotonic clock; None if the broker sent no time."""
    return Expiry(broker_ms - arrived_at * 1000, ttl_ms) if broker_ms else None
