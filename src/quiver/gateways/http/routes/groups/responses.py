"""Groups and members as responses show them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from quiver.model.names import TopicPartition
from quiver.model.times import format_time
from quiver.streams.assignors import AssignorName
from quiver.streams.member import MemberState
from quiver.streams.membership import GroupStateName, Protocol
from quiver.system.pace import paced

if TYPE_CHECKING:
    from quiver.routing.facade import Facade
    from quiver.streams.admin import GroupDetails, MemberDetails
    from quiver.streams.member_view import MemberView
    from quiver.streams.membership import RebalanceStats
    from quiver.streams.poll.members import MemberUpdate
    from quiver.streams.stats.lag import PartitionLag

Seconds = Annotated[float, Meta(description="Seconds.")]
Labels = Annotated[list[str], Meta(description="Such as orders-0.")]
Deadline = Annotated[
    str | None, Meta(description="When the member is removed if it has not stopped reading them; null: never.")
]


class PartitionRef(msgspec.Struct):
    topic: str
    partition: int


class DoneResponse(msgspec.Struct):
    status: Literal["ok"] = "ok"


class MemberResponse(msgspec.Struct, kw_only=True):
    id: str
    member_id: str
    client_id: str
    instance_id: str | None
    state: MemberState
    assigned_partitions: Labels
    last_heartbeat: str
    joined_at: str


class PartitionLagResponse(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    committed_offset: Annotated[
        int | None, Meta(description="The next offset to read; null before the first commit.")
    ]
    end_offset: int
    lag: Annotated[int, Meta(description="Messages that are not committed.")]
    lag_time: Annotated[float, Meta(description="Age of the oldest of them in seconds.")]
    owner: str | None
    metadata: str


class GroupResponse(msgspec.Struct, kw_only=True):
    id: str
    group_id: str
    kind: str
    state: GroupStateName
    protocol: Protocol
    assignor: AssignorName
    generation: int
    leader_id: str | None
    members: list[MemberResponse]
    topics: list[str]
    lag: Annotated[int, Meta(description="Messages, over all partitions.")]
    lag_time: Annotated[float, Meta(description="Age of the oldest message that is not committed, in seconds.")]
    partitions: list[PartitionLagResponse]
    config: dict[str, Any]


class CooperativeGroupResponse(GroupResponse, kw_only=True):
    member_assignments: dict[str, list[PartitionRef]]


class CooperativeResponse(msgspec.Struct, kw_only=True):
    """`partitions_assigned` is what the member may read now, `partitions_to_revoke` what it has to stop reading."""

    status: Literal["ok"] = "ok"
    member_id: str
    generation: int
    rebalance_required: bool
    partitions_to_revoke: list[PartitionRef]
    partitions_assigned: list[PartitionRef]
    state: MemberState
    revocation_deadline: Deadline


class RebalanceStatsResponse(msgspec.Struct, kw_only=True):
    total_rebalances: int
    successful_rebalances: int
    failed_rebalances: int
    partitions_moved: int
    revocation_timeouts: int
    last_duration: Seconds
    avg_duration: Seconds


class AllRebalanceStatsResponse(RebalanceStatsResponse, kw_only=True):
    """Over all groups."""

    groups: dict[str, RebalanceStatsResponse]


async def group_response(details: "GroupDetails") -> GroupResponse:
    return GroupResponse(**await _group_fields(details))


async def cooperative_group_response(details: "GroupDetails") -> CooperativeGroupResponse:
    assignments = {
        member.id: [PartitionRef(topic, partition) for topic, partition in member.partitions]
        async for member in paced(details.members)
    }
    return CooperativeGroupResponse(member_assignments=assignments, **await _group_fields(details))


async def _group_fields(details: "GroupDetails") -> dict[str, Any]:
    return {
        "id": details.id,
        "group_id": details.id,
        "kind": details.kind,
        "state": details.state,
        "protocol": details.protocol,
        "assignor": details.assignor,
        "generation": details.generation,
        "leader_id": details.leader_id,
        "members": [_member(member) async for member in paced(details.members)],
        "topics": sorted({part.topic for part in details.partitions}),
        "lag": sum(part.messages for part in details.partitions),
        "lag_time": max((part.time_ms for part in details.partitions), default=0) / 1000,
        "partitions": [_partition_lag(part) async for part in paced(details.partitions)],
        "config": details.settings,
    }


def _member(member: "MemberDetails") -> MemberResponse:
    return MemberResponse(
        id=member.id,
        member_id=member.id,
        client_id=member.client_id,
        instance_id=member.instance_id,
        state=member.state,
        assigned_partitions=[f"{topic}-{partition}" for topic, partition in member.partitions],
        last_heartbeat=format_time(member.last_heartbeat_ms),
        joined_at=format_time(member.joined_at_ms),
    )


def _partition_lag(part: "PartitionLag") -> PartitionLagResponse:
    return PartitionLagResponse(
        topic=part.topic,
        partition=part.partition,
        committed_offset=part.committed,
        end_offset=part.end_offset,
        lag=part.messages,
        lag_time=part.time_ms / 1000,
        owner=part.owner,
        metadata=part.metadata,
    )


def partition_refs(broker: "Facade", partitions: Iterable[TopicPartition]) -> list[PartitionRef]:
    """By name and number, without partitions of deleted topics."""
    parts = list(partitions)
    names = {topic_id: broker.streams.topic_name(topic_id) for topic_id in {part.topic_id for part in parts}}
    found = sorted((name, part.partition) for part in parts if (name := names[part.topic_id]) is not None)
    return [PartitionRef(name, number) for name, number in found]


def labels(refs: Iterable[PartitionRef]) -> list[str]:
    return [f"{ref.topic}-{ref.partition}" for ref in refs]


def cooperative_fields(broker: "Facade", news: "MemberUpdate") -> dict[str, Any]:
    view = news.view
    return {
        "member_id": view.member_id,
        "generation": view.generation,
        "rebalance_required": news.rebalance_required,
        "partitions_to_revoke": partition_refs(broker, view.revoke),
        "partitions_assigned": partition_refs(broker, view.assigned),
        "state": view.state,
        "revocation_deadline": _deadline(broker, view),
    }


def _deadline(broker: "Facade", view: "MemberView") -> str | None:
    return None if view.revocation_ms is None else format_time(broker.clock.now_ms() + view.revocation_ms)


def stats_fields(stats: "RebalanceStats") -> dict[str, Any]:
    return {
        "total_rebalances": stats.total,
        "successful_rebalances": stats.successful,
        "failed_rebalances": stats.failed,
        "partitions_moved": stats.partitions_moved,
        "revocation_timeouts": stats.revocation_timeouts,
        "last_duration": stats.last_duration_ms / 1000,
        "avg_duration": stats.average_duration_ms / 1000,
    }
