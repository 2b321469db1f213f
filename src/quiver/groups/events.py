"""The records of the group journal, as JSON."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from quiver.groups.state import Membership
from quiver.model.queue import QUEUE_SETTINGS, Ordering, QueueSettings
from quiver.model.settings import Setting, duration, parse_settings
from quiver.model.times import format_duration
from quiver.model.topic_partition import TopicPartition

GroupKind = Literal["stream", "queue"]

_DAY_MS = 86_400_000
_SETTINGS = {"offsets_retention": Setting("offsets_retention_ms", duration(0, 3650 * _DAY_MS)), **QUEUE_SETTINGS}


class Committed(msgspec.Struct, frozen=True, array_like=True):
    """Where a group was told to be in a partition. Acks since then are in the partition's delivery journal."""

    offset: int
    """The next offset to read."""
    at_ms: int
    metadata: str = ""
    version: int = 1
    """How often the group was told, counted when the record is applied; 0: it has begun here, and was not told."""
    decision: int = 0
    """The last transaction that told the group, of those that were decided before."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed per group."""

    offsets_retention_ms: int = 7 * _DAY_MS
    """The offsets of a group without members are kept this long."""
    queue: dict[str, int] = {}
    """Fields of QueueSettings that the group has for itself; the others are the topic's."""

    def for_topic(self, defaults: QueueSettings) -> QueueSettings:
        return msgspec.structs.replace(defaults, **self.queue) if self.queue else defaults

    def settings(self) -> dict[str, Any]:
        """By the names and in the form users write them; queue settings only where the group has its own."""
        own = self.for_topic(QueueSettings()).settings()
        chosen = {name: own[name] for name, setting in QUEUE_SETTINGS.items() if setting.field in self.queue}
        return {"offsets_retention": format_duration(self.offsets_retention_ms), **chosen}

    def changed(self, settings: Mapping[str, Any]) -> "GroupSettings":
        """With users' settings applied; null gives a queue setting back to the topic."""
        given = {name: value for name, value in settings.items() if value is not None or name not in QUEUE_SETTINGS}
        fields = parse_settings("group", _SETTINGS, given)
        dropped = {QUEUE_SETTINGS[name].field for name in settings.keys() - given.keys()}
        queue = {name: value for name, value in self.queue.items() if name not in dropped}
        queue |= {name: fields.pop(name) for name in QueueSettings.__struct_fields__ if name in fields}
        return msgspec.structs.replace(self, queue=queue, **fields)


class GroupCreated(msgspec.Struct, frozen=True, tag="group_created"):
    group: str
    at_ms: int
    id: int = 0
    kind: GroupKind = "stream"
    ordering: Ordering = "none"


class MembershipChanged(msgspec.Struct, frozen=True, tag="membership_changed"):
    """The whole membership as it is after the change."""

    group: str
    membership: Membership
    at_ms: int


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets_committed"):
    group: str
    offsets: list[tuple[TopicPartition, Committed]]
    transaction: int | None = None
    """The decision that they are a part of; the same decision counts once."""
    is_first: bool = False
    """They count where the group has none yet."""


class OffsetsForgotten(msgspec.Struct, frozen=True, tag="offsets_forgotten"):
    """The topic is gone."""

    group: str
    topic_id: int


class SettingsChanged(msgspec.Struct, frozen=True, tag="settings_changed"):
    group: str
    settings: GroupSettings


class GroupDeleted(msgspec.Struct, frozen=True, tag="group_deleted"):
    group: str


Event = GroupCreated | MembershipChanged | OffsetsCommitted | OffsetsForgotten | SettingsChanged | GroupDeleted
