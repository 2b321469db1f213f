"""Requests and responses about stream groups."""

from typing import Any, Literal

import msgspec

from quiver.model.position import EARLIEST, Position
from quiver.model.transaction import CommitPart as CommitPart
from quiver.protocol.message import Message


class JoinGroup(Message, tag=20, frozen=True):
    group: str
    client_id: str
    topics: list[str]
    pattern: str | None = None
    instance_id: str | None = None
    session_ms: int = 30_000
    member_id: str | None = None
    protocol: Literal["cooperative", "eager"] = "cooperative"
    assignor: Literal["sticky", "range", "roundrobin"] | None = None
    start: Position = EARLIEST
    """Where the group begins in topics that it has no position in."""


class GroupHeartbeat(Message, tag=21, frozen=True):
    group: str
    member_id: str
    version: int
    """Of the last response; the broker waits with the next one while nothing has changed since."""
    revoked: list[tuple[int, int]]
    """(topic id, partition) that the member has given up."""
    wait_ms: int = 3000
    is_busy: bool = False
    """The member still processes a message of a partition that it must give up, and needs more time."""


class LeaveGroup(Message, tag=22, frozen=True):
    group: str
    member_id: str


class CommitOffsets(Message, tag=23, frozen=True):
    group: str
    member_id: str | None
    """None for tools; the group must be empty then."""
    offsets: list[CommitPart]
    generation: int | None = None
    creates: bool = False
    """Without a member: whether a group that does not exist is created."""


class ListGroups(Message, tag=24, frozen=True):
    pass


class DescribeGroup(Message, tag=25, frozen=True):
    group: str


class ResetGroup(Message, tag=26, frozen=True):
    """Either a position, or a number of messages to move by, or another group whose positions are taken."""

    group: str
    topic: str
    to: Position | None = None
    shift: int | None = None
    dry_run: bool = False
    like: str | None = None


class DeleteGroup(Message, tag=27, frozen=True):
    group: str


class AlterGroup(Message, tag=28, frozen=True):
    group: str
    settings: dict[str, Any]


GroupRequest = (
    JoinGroup
    | GroupHeartbeat
    | LeaveGroup
    | CommitOffsets
    | ListGroups
    | DescribeGroup
    | ResetGroup
    | DeleteGroup
    | AlterGroup
)


class AssignedPart(msgspec.Struct, array_like=True, frozen=True):
    topic_id: int
    topic: str
    partition: int
    offset: int
    """Where a member begins that did not have the partition before."""


class MemberAssignment(Message, tag=120, frozen=True):
    member_id: str
    generation: int
    version: int
    state: str
    assigned: list[AssignedPart]
    revoke: list[tuple[int, int]]
    revocation_ms: int | None = None


class GroupSummary(msgspec.Struct, array_like=True, frozen=True):
    id: str
    kind: str
    state: str
    members: int
    generation: int
    topics: list[str]
    lag: int
    leased: int = 0
    retrying: int = 0


class GroupList(Message, tag=121, frozen=True):
    groups: list[GroupSummary]


class GroupMember(msgspec.Struct, array_like=True, frozen=True):
    id: str
    client_id: str
    instance_id: str | None
    joined_at_ms: int
    last_heartbeat_ms: int
    partitions: list[tuple[str, int]]


class GroupPartition(msgspec.Struct, array_like=True, frozen=True):
    topic: str
    partition: int
    committed: int | None
    end_offset: int
    lag: int
    lag_ms: int
    owner: str | None
    metadata: str = ""


class GroupDescription(Message, tag=122, frozen=True):
    id: str
    kind: str
    state: str
    protocol: str
    assignor: str
    generation: int
    members: list[GroupMember]
    partitions: list[GroupPartition]
    settings: dict[str, Any]


class ResetPart(msgspec.Struct, array_like=True, frozen=True):
    partition: int
    old: int | None
    new: int


class GroupReset(Message, tag=123, frozen=True):
    partitions: list[ResetPart]


GroupResponse = MemberAssignment | GroupList | GroupDescription | GroupReset
