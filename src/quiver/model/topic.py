"""A topic and its settings."""

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from quiver.model.limits import DAY_MS, KIB, MIB
from quiver.model.names import TopicId
from quiver.model.numbers import shown
from quiver.model.queue import QUEUE_SETTINGS, QueueSettings
from quiver.model.settings import Setting, duration, one_of, optional_duration, parse_settings, size, whole
from quiver.model.times import format_duration

_MOST_LABELS, _LABEL_BYTES = 32, KIB
_LABEL_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}", re.ASCII)

Durability = Literal["fsync", "interval", "memory"]
Cleanup = Literal["delete", "compact", "compact,delete"]


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a topic; durations in milliseconds, None means no limit (or: the broker's default)."""

    partitions: int = 3
    retention_ms: int | None = 7 * DAY_MS
    retention_bytes: int | None = None
    segment_bytes: int = 64 * MIB
    durability: Durability = "fsync"
    cleanup: Cleanup = "delete"
    tombstone_retention_ms: int = DAY_MS
    dedup_window_ms: int = 600_000
    """How long message ids are remembered; 0: they are ignored."""
    max_message_bytes: int | None = None
    ttl_ms: int | None = None
    priority_weights: tuple[int, int, int, int, int] = (50, 25, 15, 7, 3)
    settled_retention_ms: int | None = None
    """How long messages are kept that every group is done with."""
    replication_factor: int = 1
    min_isr: int = 1
    """How many replicas must be in sync for a message to be taken."""
    queue: QueueSettings = QueueSettings()
    """The defaults for the topic's queue groups."""
    labels: dict[str, str] = {}
    """Whatever its owners note about the topic; the broker does not read them."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup

    @property
    def roll_after_ms(self) -> int:
        """An active segment this old is closed, so that retention works on small topics too."""
        kept_ms = [each for each in (self.retention_ms, self.settled_retention_ms) if each is not None]
        return max(1, min(DAY_MS, min(kept_ms) // 4)) if kept_ms else DAY_MS

    def settings(self) -> dict[str, Any]:
        """The settings with the names and in the form that users write."""
        return {
            "partitions": self.partitions,
            "retention": None if self.retention_ms is None else format_duration(self.retention_ms),
            "retention_bytes": self.retention_bytes,
            "segment_bytes": self.segment_bytes,
            "durability": self.durability,
            "cleanup": self.cleanup,
            "tombstone_retention": format_duration(self.tombstone_retention_ms),
            "dedup_window": format_duration(self.dedup_window_ms),
            "max_message_bytes": self.max_message_bytes,
            "ttl": None if self.ttl_ms is None else format_duration(self.ttl_ms),
            "settled_retention": (
                None if self.settled_retention_ms is None else format_duration(self.settled_retention_ms)
            ),
            "priority_weights": list(self.priority_weights),
            "replication_factor": self.replication_factor,
            "min_isr": self.min_isr,
            **self.queue.settings(),
            "labels": dict(self.labels),
        }

    def changed(self, settings: Mapping[str, Any]) -> "TopicConfig":
        """This configuration with users' settings applied. One InvalidSetting names every bad setting."""
        fields = parse_settings("topic", _SETTINGS, settings)
        queue = {name: fields.pop(name) for name in QueueSettings.__struct_fields__ if name in fields}
        fields["queue"] = msgspec.structs.replace(self.queue, **queue)
        return msgspec.structs.replace(self, **fields)


def settings_that_differ(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """How a topic differs from what is wanted: `partitions is 3, not 6`. `present` comes from `settings`."""
    asked = TopicConfig().changed(wanted).settings()
    pairs = ((name, present.get(name), asked[name]) for name in wanted)
    return [f"{name} is {_shown(has)}, not {_shown(wants)}" for name, has, wants in pairs if has != wants]


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    id: TopicId
    name: str
    config: TopicConfig
    created_at_ms: int


class TopicSize(msgspec.Struct, frozen=True, array_like=True):
    """What is shared out among the members of a group."""

    id: int
    partitions: int


def _weights(value: object) -> tuple[int, ...]:
    if isinstance(value, str):
        value = [int(part) for part in value.split("/" if "/" in value else ",")]
    if not isinstance(value, list | tuple) or len(value) != 5:
        raise ValueError("priority_weights needs five numbers, from critical to background")
    if not all(isinstance(weight, int) and 1 <= weight <= 1000 for weight in value):
        raise ValueError("each weight is a whole number from 1 to 1000")
    return tuple(value)


def _labels(value: object) -> dict[str, str]:
    """A mapping, or `name=value,name=value` as in a shell."""
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("labels are written as name=value,name=value")
        value = {name.strip(): text.strip() for name, _, text in pairs}
    if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
        raise ValueError(f"labels need at most {_MOST_LABELS} names, each with a text")
    for name, text in value.items():
        if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
            raise ValueError(f"{shown(name)} is not a name for a label: 1 to 63 letters, digits, dots, - and _")
        if not isinstance(text, str) or len(text.encode()) > _LABEL_BYTES:
            raise ValueError(f"label {name} needs a text of at most {_LABEL_BYTES} bytes")
    return dict(value)


_SETTINGS: dict[str, Setting] = {
    "partitions": Setting("partitions", whole(1, 10_000)),
    "retention": Setting("retention_ms", optional_duration),
    "retention_bytes": Setting("retention_bytes", size(1, 2**62, optional=True)),
    "segment_bytes": Setting("segment_bytes", size(64 * KIB, 1024 * MIB)),
    "durability": Setting("durability", one_of(Durability)),
    "cleanup": Setting("cleanup", one_of(Cleanup)),
    "tombstone_retention": Setting("tombstone_retention_ms", duration(0, 3650 * DAY_MS)),
    "dedup_window": Setting("dedup_window_ms", duration(0, 7 * DAY_MS)),
    "max_message_bytes": Setting("max_message_bytes", size(1, 64 * MIB, optional=True)),
    "ttl": Setting("ttl_ms", optional_duration),
    "settled_retention": Setting("settled_retention_ms", optional_duration),
    "priority_weights": Setting("priority_weights", _weights),
    "replication_factor": Setting("replication_factor", whole(1, 64)),
    "min_isr": Setting("min_isr", whole(1, 64)),
    "labels": Setting("labels", _labels),
    **QUEUE_SETTINGS,
}
SETTING_NAMES: tuple[str, ...] = tuple(_SETTINGS)
