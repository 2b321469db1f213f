"""Request and response bodies of group members."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import needed, note
from quiver.gateways.http.routes.groups.responses import Deadline, Labels, PartitionRef
from quiver.gateways.http.routes.topics.topics import Duration
from quiver.streams.assignors import AssignorName
from quiver.streams.member import MemberState
from quiver.streams.membership import Protocol

_MAX_ID = 200


class JoinRequest(msgspec.Struct, kw_only=True):
    """A new member sends client_id and topics or pattern; a returning one sends member_id, and what has changed."""

    client_id: Annotated[str, Meta(min_length=1, max_length=_MAX_ID)] | None = None
    topics: Annotated[list[str] | None, note(minItems=1)] = None
    pattern: Annotated[str | None, Meta(description="A regular expression for whole topic names.")] = None
    member_id: str | None = None
    instance_id: Annotated[str, Meta(min_length=1, max_length=_MAX_ID)] | None = None
    session_timeout: Duration = None
    assignor: AssignorName | None = None
    start: Annotated[
        str | int | None, Meta(description="earliest (default), latest, an offset, a time or a time ago (-2h).")
    ] = None


class HeartbeatRequest(msgspec.Struct, kw_only=True):
    member_id: Annotated[str | None, needed()] = None
    generation: Annotated[int | None, note(minimum=0)] = None


class RevokeRequest(HeartbeatRequest, kw_only=True):
    revoked_partitions: Annotated[list[PartitionRef] | None, needed()] = None


class LeaveRequest(msgspec.Struct, kw_only=True):
    member_id: Annotated[str | None, needed()] = None


class MemberQuery(msgspec.Struct, kw_only=True):
    member_id: Annotated[str | None, needed()] = None


class JoinResponse(msgspec.Struct, kw_only=True):
    member_id: str
    generation: int
    leader_id: str | None
    leader: bool
    protocol: Protocol
    partitions: list[PartitionRef]
    assigned_partitions: Labels
    members: list[str]
    rebalance_required: Annotated[
        bool, Meta(description="True: other members have to release partitions first; join again, or poll.")
    ]


class CooperativeJoinResponse(JoinResponse, kw_only=True):
    """The fields of a join and of a CooperativeResponse."""

    status: Literal["ok"] = "ok"
    partitions_to_revoke: list[PartitionRef]
    partitions_assigned: list[PartitionRef]
    state: MemberState
    revocation_deadline: Deadline


class HeartbeatResponse(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    generation: int
    rebalance_required: bool


class AssignmentResponse(msgspec.Struct, kw_only=True):
    member_id: str
    generation: int
    partitions: list[PartitionRef]
    assigned_partitions: Labels
