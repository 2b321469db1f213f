"""What requests about groups ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.errors import InvalidRequest
from quiver.model.names import TopicPartition
from quiver.protocol.group_messages import (
    AlterGroup,
    AssignedPart,
    CommitOffsets,
    DeleteGroup,
    DescribeGroup,
    GroupDescription,
    GroupHeartbeat,
    GroupList,
    GroupMember,
    GroupPartition,
    GroupReset,
    GroupSummary,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    MemberAssignment,
    ResetGroup,
    ResetPart,
)
from quiver.protocol.message import Message
from quiver.protocol.messages import Done
from quiver.routing.facade import Facade
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import JoinOptions
from quiver.streams.reset import LikeGroup, ResetTarget
from quiver.system.pace import paced


async def _join(broker: Facade, request: JoinGroup) -> Message:
    view = await broker.streams.join(
        request.group,
        Subscription(
            client_id=request.client_id,
            topics=frozenset(request.topics),
            pattern=request.pattern,
            instance_id=request.instance_id,
            session_ms=request.session_ms,
        ),
        JoinOptions(request.member_id, request.protocol, request.assignor, request.start),
    )
    return await _assignment(broker, request.group, view)


async def _heartbeat(broker: Facade, request: GroupHeartbeat) -> Message:
    view = await broker.streams.members.heartbeat(
        request.group,
        request.member_id,
        revoked=frozenset(TopicPartition(*part) for part in request.revoked),
        is_busy=request.is_busy,
    )
    if view.version == request.version:
        view = await broker.streams.members.next_view(request.group, view, request.wait_ms)
    return await _assignment(broker, request.group, view)


async def _assignment(broker: Facade, group: str, view: MemberView) -> MemberAssignment:
    assigned = []
    offsets = await broker.streams.next_offsets(group, view.assigned)
    async for part in paced(sorted(offsets)):
        name = broker.streams.topic_name(part.topic_id)
        if name is not None:
            assigned.append(AssignedPart(part.topic_id, name, part.partition, offsets[part]))
    return MemberAssignment(
        view.member_id,
        view.generation,
        view.version,
        view.state,
        assigned,
        sorted(view.revoke),
        view.revocation_ms,
    )


async def _leave(broker: Facade, request: LeaveGroup) -> Message:
    await broker.streams.members.leave(request.group, request.member_id)
    return Done()


async def _commit(broker: Facade, request: CommitOffsets) -> Message:
    await broker.streams.commit_partitions(
        request.group,
        {TopicPartition(part.topic_id, part.partition): (part.offset, part.metadata) for part in request.offsets},
        member_id=request.member_id,
        generation=request.generation,
        creates=request.creates,
    )
    return Done()


async def _list(broker: Facade, request: ListGroups) -> Message:
    return GroupList(
        [
            GroupSummary(
                summary.id,
                summary.kind,
                summary.state,
                summary.member_count,
                summary.generation,
                summary.topics,
                summary.lag,
                summary.leased,
                summary.retrying,
            )
            for summary in await broker.group_admin.summaries()
        ]
    )


async def _describe(broker: Facade, request: DescribeGroup) -> Message:
    details = await broker.group_admin.describe(request.group)
    return GroupDescription(
        details.id,
        details.kind,
        details.state,
        details.protocol,
        details.assignor,
        details.generation,
        [
            GroupMember(m.id, m.client_id, m.instance_id, m.joined_at_ms, m.last_heartbeat_ms, m.partitions)
            for m in details.members
        ],
        [
            GroupPartition(
                p.topic, p.partition, p.committed, p.end_offset, p.messages, p.time_ms, p.owner, p.metadata
            )
            async for p in paced(details.partitions)
        ],
        details.settings,
    )


async def _reset(broker: Facade, request: ResetGroup) -> Message:
    like = None if request.like is None else LikeGroup(request.like)
    given = [to for to in (request.to, request.shift, like) if to is not None]
    if len(given) != 1:
        raise InvalidRequest(problem="a reset needs one of a position, a number to shift by, and another group")
    to: ResetTarget = given[0]
    changes = await broker.offset_reset.reset(request.group, request.topic, to, dry_run=request.dry_run)
    return GroupReset([ResetPart(*change) for change in changes])


async def _delete(broker: Facade, request: DeleteGroup) -> Message:
    await broker.group_admin.delete(request.group)
    return Done()


async def _alter(broker: Facade, request: AlterGroup) -> Message:
    await broker.group_admin.alter(request.group, request.settings)
    return Done()


GROUP_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    JoinGroup: _join,
    GroupHeartbeat: _heartbeat,
    LeaveGroup: _leave,
    CommitOffsets: _commit,
    ListGroups: _list,
    DescribeGroup: _describe,
    ResetGroup: _reset,
    DeleteGroup: _delete,
    AlterGroup: _alter,
}
