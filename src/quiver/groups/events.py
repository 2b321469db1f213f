"""The records of the group journal, as JSON."""

import msgspec

from quiver.groups.assignors import TopicPartition
from quiver.groups.state import Membership


class Committed(msgspec.Struct, frozen=True, array_like=True):
    offset: int
    """The next offset to read."""
    at_ms: int
    metadata: str = ""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed per group."""

    offsets_retention_ms: int = 7 * 86_400_000
    """The offsets of a group without members are kept this long."""


class GroupCreated(msgspec.Struct, frozen=True, tag="group_created"):
    group: str
    at_ms: int


class MembershipChanged(msgspec.Struct, frozen=True, tag="membership_changed"):
    """The whole membership as it is after the change."""

    group: str
    membership: Membership
    at_ms: int


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets_committed"):
    group: str
    offsets: list[tuple[TopicPartition, Committed]]


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
