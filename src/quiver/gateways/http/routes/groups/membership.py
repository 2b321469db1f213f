"""Members of a group: join, heartbeat, revoke, leave; the eager routes and the cooperative ones."""

from typing import TYPE_CHECKING, Any

import msgspec

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.groups import group_of
from quiver.gateways.http.routes.groups.member_bodies import (
    AssignmentResponse,
    CooperativeJoinResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinRequest,
    JoinResponse,
    LeaveRequest,
    MemberQuery,
    RevokeRequest,
)
from quiver.gateways.http.routes.groups.responses import (
    CooperativeResponse,
    DoneResponse,
    cooperative_fields,
    labels,
    partition_refs,
)
from quiver.model.errors import (
    GenerationMismatch,
    GroupNotFound,
    GroupProtocolMismatch,
    InvalidName,
    InvalidRequest,
    MemberFenced,
    MemberNotFound,
    TopicNotFound,
)
from quiver.model.names import TopicPartition, check_name
from quiver.model.position import EARLIEST, parse_position
from quiver.model.times import parse_duration_ms
from quiver.streams.member import Subscription
from quiver.streams.membership import JoinOptions, Protocol

if TYPE_CHECKING:
    from quiver.routing.facade import Facade
    from quiver.streams.poll.members import MemberUpdate


_KNOWN = (InvalidRequest, InvalidName, GroupNotFound, MemberNotFound, MemberFenced)
_MEMBER = {"member_id": "web-1-0123456789abcdef"}
_JOIN: dict[str, Any] = {
    "tag": "Groups",
    "body": JoinRequest,
    "body_needed": True,
    "example": {"client_id": "web-1", "topics": ["orders"]},
    "errors": (*_KNOWN, TopicNotFound, GroupProtocolMismatch),
}
_HEARTBEAT: dict[str, Any] = {
    "tag": "Groups",
    "body": HeartbeatRequest,
    "example": _MEMBER | {"generation": 1},
    "errors": (*_KNOWN, GenerationMismatch),
}
_LEAVE: dict[str, Any] = {"tag": "Groups", "body": LeaveRequest, "example": _MEMBER, "errors": _KNOWN}
_REVOKE = _HEARTBEAT | {
    "body": RevokeRequest,
    "example": _MEMBER | {"generation": 2, "revoked_partitions": [{"topic": "orders", "partition": 0}]},
}


def required_member(member_id: str | None) -> str:
    if not member_id:
        raise InvalidRequest(problem='"member_id" is needed: the one that join returned')
    return member_id


class MembershipRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def join(self, request: Request) -> Response:
        group = group_of(request)
        news = await self._join(group, await request.body(JoinRequest), "eager")
        return Response(JoinResponse(**await self._join_fields(group, news)))

    async def join_cooperative(self, request: Request) -> Response:
        group = group_of(request)
        news = await self._join(group, await request.body(JoinRequest), "cooperative")
        fields = await self._join_fields(group, news) | cooperative_fields(self._broker, news)
        return Response(CooperativeJoinResponse(**fields))

    async def heartbeat(self, request: Request) -> Response:
        group, beat = group_of(request), await request.body(HeartbeatRequest)
        news = await self._broker.poll_members.heartbeat(
            group, required_member(beat.member_id), beat.generation, tell=False
        )
        return Response(
            HeartbeatResponse(generation=news.view.generation, rebalance_required=news.rebalance_required)
        )

    async def heartbeat_cooperative(self, request: Request) -> Response:
        group, beat = group_of(request), await request.body(HeartbeatRequest)
        news = await self._broker.poll_members.heartbeat(
            group, required_member(beat.member_id), beat.generation, tell=True
        )
        return Response(CooperativeResponse(**cooperative_fields(self._broker, news)))

    async def revoke(self, request: Request) -> Response:
        group, wanted = group_of(request), await request.body(RevokeRequest)
        if wanted.revoked_partitions is None:
            raise InvalidRequest(problem='the body needs "revoked_partitions": [{topic, partition}]')
        ids = {topic.name: topic.id for topic in self._broker.topics()}
        partitions = frozenset(
            TopicPartition(ids[ref.topic], ref.partition) for ref in wanted.revoked_partitions if ref.topic in ids
        )
        news = await self._broker.poll_members.revoke(
            group, required_member(wanted.member_id), partitions, wanted.generation
        )
        return Response(CooperativeResponse(**cooperative_fields(self._broker, news)))

    async def leave(self, request: Request) -> Response:
        group, wanted = group_of(request), await request.body(LeaveRequest)
        await self._broker.poll_members.leave(group, required_member(wanted.member_id))
        return Response(DoneResponse())

    async def leave_cooperative(self, request: Request) -> Response:
        group, wanted = group_of(request), await request.body(LeaveRequest)
        member_id = required_member(wanted.member_id)
        await self._broker.poll_members.leave(group, member_id)
        return Response(
            CooperativeResponse(
                member_id=member_id,
                generation=(await self._broker.group_admin.membership(group)).generation,
                rebalance_required=False,
                partitions_to_revoke=[],
                partitions_assigned=[],
                state="none",
                revocation_deadline=None,
            )
        )

    async def assignment(self, request: Request) -> Response:
        group, query = group_of(request), request.query(MemberQuery)
        view = await self._broker.poll_members.assignment(group, required_member(query.member_id))
        refs = partition_refs(self._broker, view.assigned)
        return Response(
            AssignmentResponse(
                member_id=view.member_id,
                generation=view.generation,
                partitions=refs,
                assigned_partitions=labels(refs),
            )
        )

    async def _join(self, group: str, wanted: JoinRequest, protocol: Protocol) -> "MemberUpdate":
        start = EARLIEST if wanted.start is None else parse_position(wanted.start, self._broker.clock.now_ms())
        options = JoinOptions(wanted.member_id, protocol, wanted.assignor, start)
        return await self._broker.poll_members.join(group, await self._subscription(group, wanted), options)

    async def _subscription(self, group: str, wanted: JoinRequest) -> Subscription:
        """What a returning member leaves out stays as it was."""
        if wanted.member_id is not None:
            membership = await self._broker.group_admin.membership(group)
            old = membership.member(wanted.member_id).subscription
        elif wanted.client_id is None:
            raise InvalidRequest(problem='the body needs "client_id": a name for this client')
        else:
            old = Subscription(client_id=wanted.client_id)
        changes: dict[str, Any] = {
            "client_id": wanted.client_id,
            "topics": None if wanted.topics is None else frozenset(map(check_name, wanted.topics)),
            "pattern": wanted.pattern,
            "instance_id": wanted.instance_id,
        }
        if wanted.session_timeout is not None:
            changes["session_ms"] = parse_duration_ms(wanted.session_timeout, "session_timeout")
        given = {name: value for name, value in changes.items() if value is not None}
        return msgspec.structs.replace(old, **given)

    async def _join_fields(self, group: str, news: "MemberUpdate") -> dict[str, Any]:
        membership = await self._broker.group_admin.membership(group)
        refs = partition_refs(self._broker, news.view.assigned)
        return {
            "member_id": news.view.member_id,
            "generation": news.view.generation,
            "leader_id": membership.leader_id,
            "leader": membership.leader_id == news.view.member_id,
            "protocol": membership.protocol,
            "partitions": refs,
            "assigned_partitions": labels(refs),
            "members": sorted(membership.members),
            "rebalance_required": news.rebalance_required,
        }


def membership_routes(broker: "Facade") -> Routes:
    routes = MembershipRoutes(broker)
    assignment = Operation(
        handler=routes.assignment,
        summary="The partitions that a member may read now",
        tag="Groups",
        query=MemberQuery,
        response=AssignmentResponse,
        errors=_KNOWN,
    )
    posts = _plain_routes(routes) | _cooperative_routes(routes)
    return {
        **{f"/groups/{{group}}/{path}": {"POST": operation} for path, operation in posts.items()},
        "/groups/{group}/assignment": {"GET": assignment},
    }


def _plain_routes(routes: MembershipRoutes) -> dict[str, Operation]:
    return {
        "heartbeat": Operation(
            handler=routes.heartbeat, summary="A member's heartbeat (eager)", response=HeartbeatResponse, **_HEARTBEAT
        ),
        "join": Operation(
            handler=routes.join, summary="Join a group, or rejoin it (eager)", response=JoinResponse, **_JOIN
        ),
        "leave": Operation(handler=routes.leave, summary="Leave a group", response=DoneResponse, **_LEAVE),
    }


def _cooperative_routes(routes: MembershipRoutes) -> dict[str, Operation]:
    return {
        "heartbeat/cooperative": Operation(
            handler=routes.heartbeat_cooperative,
            summary="A member's heartbeat; returns its partitions and those to revoke",
            response=CooperativeResponse,
            **_HEARTBEAT,
        ),
        "join/cooperative": Operation(
            handler=routes.join_cooperative,
            summary="Join a group, or rejoin it (cooperative)",
            response=CooperativeJoinResponse,
            **_JOIN,
        ),
        "revoke": Operation(
            handler=routes.revoke,
            summary="Report partitions that a member has stopped reading",
            response=CooperativeResponse,
            **_REVOKE,
        ),
        "leave/cooperative": Operation(
            handler=routes.leave_cooperative, summary="Leave a group", response=CooperativeResponse, **_LEAVE
        ),
    }
