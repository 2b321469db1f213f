"""What is asked about groups of both kinds."""

from quiver.links.request import PeerRequest
from quiver.model.position import Position
from quiver.streams.admin import GroupDetails, GroupPart
from quiver.streams.membership import Membership
from quiver.streams.reset import ResetOffset

# of the owner of a group


class MembershipOf(PeerRequest[Membership], frozen=True):
    capability, method = "groups", "membership"
    group: str


class DeleteGroup(PeerRequest[None], frozen=True):
    capability, method = "groups", "delete"
    group: str


class ResetGroup(PeerRequest[list[ResetOffset]], frozen=True):
    """To one of the three."""

    capability, method = "groups", "reset"
    group: str
    topic: str
    position: Position | None
    shift: int | None
    like: str | None
    dry_run: bool


# of the owner of a stream group; of every worker about a queue group


class Describe(PeerRequest[GroupDetails], frozen=True):
    capability, method = "groups", "describe"
    group: str
    used: dict[str, list[int]]


# of every worker


class UsedTopicsOf(PeerRequest[dict[str, list[int]]], frozen=True):
    capability, method = "groups", "used_topics"
    groups: list[str]


class PartsOf(PeerRequest[list[GroupPart]], frozen=True):
    capability, method = "groups", "parts"
    groups: list[str]
    used: dict[str, list[int]]


class ReadersOf(PeerRequest[dict[int, set[str]]], frozen=True):
    capability, method = "groups", "readers"
    topic_ids: list[int]


# of the owners of partitions that a queue group uses


class CheckIdle(PeerRequest[None], frozen=True):
    capability, method = "groups", "check_idle"
    group: str


class SettledOffsets(PeerRequest[dict[int, int]], frozen=True):
    capability, method = "groups", "settled_offsets"
    topic_id: int
    group: str


class Rewind(PeerRequest[None], frozen=True):
    capability, method = "groups", "rewind"
    topic_id: int
    group: str
    offsets: dict[int, int]


class LeaveTopic(PeerRequest[None], frozen=True):
    capability, method = "groups", "leave_topic"
    group: str
    topic: str


class GroupDeleted(PeerRequest[None], frozen=True):
    capability, method = "groups", "deleted"
    group_id: int
