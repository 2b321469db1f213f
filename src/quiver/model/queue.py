"""What queue groups can be told: on the topic as a default, on a group for itself."""

from typing import Any, Literal

import msgspec

from quiver.model.settings import Setting, duration, whole
from quiver.model.times import format_duration

Ordering = Literal["none", "key"]

_DAY_MS = 86_400_000


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    max_attempts: int = 4
    """Deliveries, the first one included."""
    backoff_ms: int = 1_000
    """The pause before the first retry; it doubles with each."""
    backoff_max_ms: int = 60_000
    visibility_ms: int = 30_000
    max_unacked: int = 1_000
    """Messages that a consumer may hold at a time."""
    starvation_ms: int = 30_000
    """A priority level that was not served for this long comes next."""

    def settings(self) -> dict[str, Any]:
        """By the names and in the form users write them."""
        return {
            "max_attempts": self.max_attempts,
            "backoff": format_duration(self.backoff_ms),
            "backoff_max": format_duration(self.backoff_max_ms),
            "visibility": format_duration(self.visibility_ms),
            "max_unacked": self.max_unacked,
            "starvation": format_duration(self.starvation_ms),
        }


QUEUE_SETTINGS: dict[str, Setting] = {
    "max_attempts": Setting("max_attempts", whole(1, 10_000)),
    "backoff": Setting("backoff_ms", duration(0, _DAY_MS)),
    "backoff_max": Setting("backoff_max_ms", duration(0, 7 * _DAY_MS)),
    "visibility": Setting("visibility_ms", duration(1, 7 * _DAY_MS)),
    "max_unacked": Setting("max_unacked", whole(1, 1_000_000)),
    "starvation": Setting("starvation_ms", duration(1, _DAY_MS)),
}
