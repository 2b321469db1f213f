"""The settings of queue groups, and what a receive asks for."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import (
    DAY_MS,
    LONGEST_VISIBILITY_MS,
    LONGEST_WAIT_MS,
    MESSAGES_AT_ONCE,
    MIB,
    NAME_LENGTH,
    TOPICS_AT_ONCE,
)
from quiver.model.position import Position
from quiver.model.priority import Priority
from quiver.model.settings import Setting, duration, true_or_false, whole
from quiver.model.times import format_duration

Ordering = Literal["none", "key"]


class Pause(msgspec.Struct, frozen=True):
    """A queue group gets nothing from a topic until it is resumed."""

    since_ms: int
    reason: str = ""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Set on a topic as defaults, or on one group."""

    max_attempts: int = 4
    """Deliveries, the first one included."""
    backoff_ms: int = 1_000
    """The pause before the first retry; it doubles with each further one."""
    backoff_max_ms: int = 60_000
    visibility_ms: int = 30_000
    max_unacked: int = 1_000
    """Messages that a consumer may have leased at a time."""
    starvation_ms: int = 30_000
    """A priority level that was not served for this long comes next."""
    count_expired: bool = True
    """Whether a delivery counts whose lease expired; for groups that are ordered by key."""

    def settings(self) -> dict[str, Any]:
        """By the names and in the form users write them."""
        return {
            "max_attempts": self.max_attempts,
            "backoff": format_duration(self.backoff_ms),
            "backoff_max": format_duration(self.backoff_max_ms),
            "visibility": format_duration(self.visibility_ms),
            "max_unacked": self.max_unacked,
            "starvation": format_duration(self.starvation_ms),
            "count_expired": self.count_expired,
        }


QUEUE_SETTINGS: dict[str, Setting] = {
    "max_attempts": Setting("max_attempts", whole(1, 10_000)),
    "backoff": Setting("backoff_ms", duration(0, DAY_MS)),
    "backoff_max": Setting("backoff_max_ms", duration(0, 7 * DAY_MS)),
    "visibility": Setting("visibility_ms", duration(1, LONGEST_VISIBILITY_MS)),
    "max_unacked": Setting("max_unacked", whole(1, 1_000_000)),
    "starvation": Setting("starvation_ms", duration(1, DAY_MS)),
    "count_expired": Setting("count_expired", true_or_false),
}


class ReceiveRequest(msgspec.Struct, frozen=True):
    topic_ids: Sequence[int]
    group: str
    consumer: str
    """The group's max_unacked is counted per consumer."""
    max_messages: int = 10
    max_bytes: int = 8 * MIB
    wait_ms: int = 0
    visibility_ms: int | None = None
    """How long the lease lasts; None: the group's visibility."""
    ordering: Ordering | None = None
    """Fixed at the group's first use."""
    priority: Priority | None = None
    """This level only."""
    start: Position | None = None
    """Where the group begins if it has no position yet; None: earliest."""
    key: bytes | None = None
    """Only messages with this key; for groups that are ordered by key."""
    max_keys: int | None = None
    """Messages of at most this many keys; for groups that are ordered by key."""
    own_first: bool = False
    """What the worker that is asked has itself comes first, and others are asked only if that is nothing: for callers
    that go to the workers in turn."""

    def check(self) -> None:
        if not 1 <= len(self.topic_ids) <= TOPICS_AT_ONCE:
            raise InvalidRequest(problem=f"a receive names 1 to {TOPICS_AT_ONCE} topics, not {len(self.topic_ids)}")
        if not 1 <= self.max_messages <= MESSAGES_AT_ONCE:
            raise InvalidRequest(problem=f"max_messages {self.max_messages} is not between 1 and {MESSAGES_AT_ONCE}")
        if not 0 <= self.wait_ms <= LONGEST_WAIT_MS:
            raise InvalidRequest(problem=f"a wait of {self.wait_ms} ms is not between 0 and 5 minutes")
        if self.visibility_ms is not None and not 1 <= self.visibility_ms <= LONGEST_VISIBILITY_MS:
            raise InvalidRequest(problem=f"a visibility of {self.visibility_ms} ms is not between 1 ms and 7 days")
        if not 1 <= len(self.consumer) <= NAME_LENGTH:
            raise InvalidRequest(problem=f"a consumer's name has 1 to {NAME_LENGTH} characters")
        if self.max_keys is not None and self.max_keys < 1:
            raise InvalidRequest(problem=f"max_keys is at least 1, not {self.max_keys}")
