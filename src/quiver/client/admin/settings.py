"""Settings of topics and groups as users write them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from quiver.model.numbers import Size
from quiver.model.times import Duration, format_duration, parse_duration_ms
from quiver.model.topic import Cleanup, Durability


class QueueSettings(TypedDict, total=False):
    """Settings of queue groups; those of a topic are the defaults of its groups."""

    max_attempts: int | None
    """Deliveries, the first one included, before a message goes to the dead letters (4)."""
    backoff: Duration | None
    """The pause before the first retry (1s); it doubles with each further one."""
    backoff_max: Duration | None
    """The longest pause (60s)."""
    visibility: Duration | None
    """How long a lease lasts if it is not renewed (30s)."""
    max_unacked: int | None
    """Messages that a consumer may have leased at a time (1,000)."""
    starvation: Duration | None
    """A priority level that was not served for this long comes next (30s)."""
    count_expired: bool | None
    """Whether a delivery counts whose lease expired (True); for groups ordered by key."""


class GroupSettings(QueueSettings, total=False):
    """None means the topic's setting."""

    offsets_retention: Duration | None
    """How long the positions of a group without members are kept."""


class TopicSettings(QueueSettings, total=False):
    """Settings that are not given have the broker's defaults, or do not change. None: no limit."""

    partitions: int
    """The number of partitions (3); raising it later moves keys."""
    retention: Duration | None
    """How long messages are kept (7d)."""
    retention_bytes: Size | None
    """The most that each partition keeps (no limit), such as `10GiB`."""
    segment_bytes: Size
    """The size at which a segment file is closed (64MiB)."""
    durability: Durability
    """fsync: acked is on disk; interval: synced every second; memory: never written."""
    cleanup: Cleanup
    """delete, compact or compact,delete."""
    tombstone_retention: Duration
    """How long compaction keeps tombstones (24h)."""
    dedup_window: Duration
    """How long message ids are remembered (10m); 0: not at all."""
    max_message_bytes: Size | None
    """The largest message; None: the broker's limit."""
    ttl: Duration | None
    """Messages expire this long after they were stored (never)."""
    settled_retention: Duration | None
    """How long messages are kept that every group is done with (as long as the others)."""
    priority_weights: Sequence[int] | str
    """Five, from critical to background (50, 25, 15, 7, 3)."""
    replication_factor: int
    """What the cluster has of everything; any other number is refused."""
    min_isr: int
    """How many replicas must be in sync for a message to be taken (what the cluster says, and at least that)."""
    labels: Mapping[str, str]
    """At most 32 notes about the topic, each of 1 KiB; they replace those that it has."""


def sent_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As they are sent to the broker: durations are text."""
    return {
        name: format_duration(parse_duration_ms(value, name)) if isinstance(value, timedelta) else value
        for name, value in settings.items()
    }
