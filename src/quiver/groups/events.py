"""The records of the journal of groups, as JSON."""

from typing import Literal

import msgspec

from quiver.groups.settings import GroupSettings
from quiver.model.queue import Ordering, Pause

GroupKind = Literal["stream", "queue"]


class GroupCreated(msgspec.Struct, frozen=True, tag="group_created"):
    group: str
    at_ms: int
    id: int
    kind: GroupKind
    ordering: Ordering = "none"


class SettingsChanged(msgspec.Struct, frozen=True, tag="settings_changed"):
    group: str
    settings: GroupSettings


class QueuePaused(msgspec.Struct, frozen=True, tag="queue_paused"):
    """The group gets nothing from a topic until it is resumed there."""

    group: str
    topic_id: int
    pause: Pause


class QueueResumed(msgspec.Struct, frozen=True, tag="queue_resumed"):
    group: str
    topic_id: int


class GroupDeleted(msgspec.Struct, frozen=True, tag="group_deleted"):
    group: str


Event = GroupCreated | SettingsChanged | QueuePaused | QueueResumed | GroupDeleted
