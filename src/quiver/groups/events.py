"""What can happen to the definition of a group, as keys of coordination say it. Values are JSON."""

from typing import Literal

import msgspec

from quiver.coordination.port import Change
from quiver.groups.settings import GroupSettings
from quiver.model.queue import Ordering, Pause

GroupKind = Literal["stream", "queue"]

GROUPS = "groups/"
"""By name."""
IDS_KEY = "counters/group-id"


class Group(msgspec.Struct, kw_only=True):
    id: int
    """Never used twice: a group that is created again under the same name gets another id."""
    name: str
    kind: GroupKind
    ordering: Ordering = "none"
    created_at_ms: int
    settings: GroupSettings = GroupSettings()
    paused: dict[int, Pause] = {}
    """By topic id: where a queue group gets nothing."""


class GroupStored(msgspec.Struct, frozen=True):
    """The group is new, or has other settings or pauses."""

    group: Group


class GroupGone(msgspec.Struct, frozen=True):
    name: str


Event = GroupStored | GroupGone

_GROUP = msgspec.json.Decoder(Group)


def group_key(name: str) -> str:
    return GROUPS + name


def event_of(change: Change) -> Event:
    """What the change of a key of GROUPS means."""
    if change.value is None:
        return GroupGone(change.key.removeprefix(GROUPS))
    return GroupStored(_GROUP.decode(change.value))
