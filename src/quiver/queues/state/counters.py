"""What has happened in a group and partition since the broker was started."""

import msgspec

from quiver.queues.state.port import LEVELS


def _per_level() -> list[int]:
    return [0] * LEVELS


class Counters(msgspec.Struct):
    """Messages, if it does not say otherwise."""

    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    extensions: int = 0
    dead: int = 0
    """Dead letters; also those before the broker was started."""
    expired_leases: int = 0
    """Messages whose lease ran out."""
    lost: int = 0
    """Gone before they were settled: removed by retention, or damaged."""
    delivered: int = 0
    delivered_by_level: list[int] = msgspec.field(default_factory=_per_level)
    waited_ms_by_level: list[int] = msgspec.field(default_factory=_per_level)
    """From arrival to delivery, summed over the messages."""
    last_served_ms_by_level: list[int] = msgspec.field(default_factory=_per_level)
