"""The records of the journal of groups, as JSON."""

from typing import Literal

import msgspec

from quiver.groups.settings import GroupSettings
from quiver.model.queue import Ordering

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


class GroupDeleted(msgspec.Struct, frozen=True, tag="group_deleted"):
    group: str


Event = GroupCreated | SettingsChanged | GroupDeleted
