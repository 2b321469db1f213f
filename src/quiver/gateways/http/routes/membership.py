"""Members of a group: join, heartbeat, leave, let go; eager, and with the cooperative twins."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from quiver.gateways.http.answer import Answer
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.group_answers import (
    CooperativeAnswer,
    Deadline,
    DoneAnswer,
    Labels,
    PartitionRef,
    cooperative_fields,
    labels,
    partition_refs,
)
from quiver.gateways.http.routes.groups import group_of
from quiver.gateways.http.routes.topics import Duration
from quiver.groups.assignors import AssignorName, TopicPartition
from quiver.groups.member import MemberState, Subscription
from quiver.groups.state import Protocol
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
from quiver.model.names import check_name
from quiver.model.position import EARLIEST, parse_position
from quiver.model.times import parse_duration_ms

if TYPE_CHECKING:
    from quiver.broker.broker import Broker
    from quiver.broker.members import MemberNews

_MAX_ID = 200


class JoinRequest(msgspec.Struct, kw_only=True):
    """A new member says client_id and topics or pattern; one that comes back says member_id, and what has changed."""

    client_id: Annotated[str, Meta(min_length=1, max_length=_MAX_ID)] | None = None
    topics: list[str] | None = None
    pattern: Annotated[str | None, Meta(description="A regular expression for whole topic names.")] = None
    member_id: str | None = None
    instance_id: Annotated[str, Meta(min_length=1, max_length=_MAX_ID)] | None = None
    session_timeout: Duration = None
    assignor: AssignorName | None = None
    start: Annotated[
        str | int | None, Meta(description="earliest (default), latest, an offset, a time or a time ago (-2h).")
    ] = None


class HeartbeatRequest(msgspec.Struct, kw_only=True):
    member_id: str | None = None
    generation: int | None = None


class RevokeRequest(HeartbeatRequest, kw_only=True):
    revoked_partitions: list[PartitionRef] | None = None


class LeaveRequest(msgspec.Struct, kw_only=True):
    member_id: str | None = None


class MemberQuery(msgspec.Struct, kw_only=True):
    member_id: str | None = None


class JoinAnswer(msgspec.Struct, kw_only=True):
    member_id: str
    generation: int
    leader_id: str | None
    leader: bool
    protocol: Protocol
    partitions: list[PartitionRef]
    assigned_partitions: Labels
    members: list[str]
    rebalance_required: Annotated[bool, Meta(description="True: others have to let go first; join again, or poll.")]


class CooperativeJoinAnswer(JoinAnswer, kw_only=True):
    """The fields of a join and of a CooperativeAnswer."""

    status: Literal["ok"] = "ok"
    partitions_to_revoke: list[PartitionRef]
    partitions_assigned: list[PartitionRef]
    state: MemberState
    revocation_deadline: Deadline


class HeartbeatAnswer(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"
    generation: int
    rebalance_required: bool


class AssignmentAnswer(msgspec.Struct, kw_only=True):
    member_id: str
    generation: int
    partitions: list[PartitionRef]
    assigned_partitions: Labels


def required_member(member_id: str | None) -> str:
    if not member_id:
        raise InvalidRequest(problem='"member_id" is needed: the one that join answered')
    return member_id


class MembershipRoutes:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def join(self, request: Request) -> Answer:
        group = group_of(request)
        news = await self._join(group, await request.body(JoinRequest), "eager")
        return Answer(JoinAnswer(**self._join_fields(group, news)))

    async def join_cooperative(self, request: Request) -> Answer:
        group = group_of(request)
        news = await self._join(group, await request.body(JoinRequest), "cooperative")
        return Answer(
            CooperativeJoinAnswer(**(self._join_fields(group, news) | cooperative_fields(self._broker, news)))
        )

    async def heartbeat(self, request: Request) -> Answer:
        group, beat = group_of(request), await request.body(HeartbeatRequest)
        news = await self._broker.members.heartbeat(
            group, required_member(beat.member_id), beat.generation, tell=False
        )
        return Answer(HeartbeatAnswer(generation=news.view.generation, rebalance_required=news.rebalance_required))

    async def heartbeat_cooperative(self, request: Request) -> Answer:
        group, beat = group_of(request), await request.body(HeartbeatRequest)
        news = await self._broker.members.heartbeat(
            group, required_member(beat.member_id), beat.generation, tell=True
        )
        return Answer(CooperativeAnswer(**cooperative_fields(self._broker, news)))

    async def revoke(self, request: Request) -> Answer:
        group, wanted = group_of(request), await request.body(RevokeRequest)
        if wanted.revoked_partitions is None:
            raise InvalidRequest(problem='the body needs "revoked_partitions": [{topic, partition}]')
        ids = {topic.name: topic.id for topic in self._broker.topics()}
        partitions = frozenset(
            TopicPartition(ids[ref.topic], ref.partition) for ref in wanted.revoked_partitions if ref.topic in ids
        )
        news = await self._broker.members.revoke(
            group, required_member(wanted.member_id), partitions, wanted.generation
        )
        return Answer(CooperativeAnswer(**cooperative_fields(self._broker, news)))

    async def leave(self, request: Request) -> Answer:
        group, wanted = group_of(request), await request.body(LeaveRequest)
        await self._broker.members.leave(group, required_member(wanted.member_id))
        return Answer(DoneAnswer())

    async def leave_cooperative(self, request: Request) -> Answer:
        group, wanted = group_of(request), await request.body(LeaveRequest)
        member_id = required_member(wanted.member_id)
        await self._broker.members.leave(group, member_id)
        return Answer(
            CooperativeAnswer(
                member_id=member_id,
                generation=self._broker.groups.service.group(group).membership.generation,
                rebalance_required=False,
                partitions_to_revoke=[],
                partitions_assigned=[],
                state="none",
                revocation_deadline=None,
            )
        )

    async def assignment(self, request: Request) -> Answer:
        group, query = group_of(request), request.query(MemberQuery)
        view = self._broker.members.assignment(group, required_member(query.member_id))
        refs = partition_refs(self._broker, view.assigned)
        return Answer(
            AssignmentAnswer(
                member_id=view.member_id,
                generation=view.generation,
                partitions=refs,
                assigned_partitions=labels(refs),
            )
        )

    async def _join(self, group: str, wanted: JoinRequest, protocol: Protocol) -> "MemberNews":
        start = EARLIEST if wanted.start is None else parse_position(wanted.start, self._broker.clock.now_ms())
        return await self._broker.members.join(
            group,
            self._subscription(group, wanted),
            member_id=wanted.member_id,
            protocol=protocol,
            assignor=wanted.assignor,
            start=start,
        )

    def _subscription(self, group: str, wanted: JoinRequest) -> Subscription:
        """What a member that comes back does not say stays as it was."""
        if wanted.member_id is not None:
            old = self._broker.groups.service.group(group).membership.member(wanted.member_id).subscription
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

    def _join_fields(self, group: str, news: "MemberNews") -> dict[str, Any]:
        membership = self._broker.groups.service.group(group).membership
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


def membership_routes(broker: "Broker") -> Routes:
    routes = MembershipRoutes(broker)
    known = (InvalidRequest, InvalidName, GroupNotFound, MemberNotFound, MemberFenced)
    beat_example = {"member_id": "web-1-0123456789abcdef", "generation": 1}
    revoke_example = beat_example | {"revoked_partitions": [{"topic": "orders", "partition": 0}]}
    join_example = {"client_id": "web-1", "topics": ["orders"]}
    join_errors = (*known, TopicNotFound, GroupProtocolMismatch)
    beat_errors = (*known, GenerationMismatch)

    def post(handler: Any, summary: str, body: Any, answer: Any, example: Any, errors: Any) -> dict[str, Operation]:
        operation = Operation(
            handler=handler, summary=summary, tag="Groups", body=body, answer=answer, example=example, errors=errors
        )
        return {"POST": operation}

    return {
        "/groups/{group}/heartbeat": post(
            routes.heartbeat, "A member's sign of life", HeartbeatRequest, HeartbeatAnswer, beat_example, beat_errors
        ),
        "/groups/{group}/heartbeat/cooperative": post(
            routes.heartbeat_cooperative,
            "A member's sign of life; hears what it has and what it is to let go of",
            HeartbeatRequest,
            CooperativeAnswer,
            beat_example,
            beat_errors,
        ),
        "/groups/{group}/join": post(
            routes.join, "Join a group, or come back (eager)", JoinRequest, JoinAnswer, join_example, join_errors
        ),
        "/groups/{group}/join/cooperative": post(
            routes.join_cooperative,
            "Join a group, or come back (cooperative)",
            JoinRequest,
            CooperativeJoinAnswer,
            join_example,
            join_errors,
        ),
        "/groups/{group}/revoke": post(
            routes.revoke,
            "A member has let go of partitions",
            RevokeRequest,
            CooperativeAnswer,
            revoke_example,
            beat_errors,
        ),
        "/groups/{group}/leave": post(
            routes.leave, "Leave a group", LeaveRequest, DoneAnswer, {"member_id": beat_example["member_id"]}, known
        ),
        "/groups/{group}/leave/cooperative": post(
            routes.leave_cooperative,
            "Leave a group",
            LeaveRequest,
            CooperativeAnswer,
            {"member_id": beat_example["member_id"]},
            known,
        ),
        "/groups/{group}/assignment": {
            "GET": Operation(
                handler=routes.assignment,
                summary="What a member may read now",
                tag="Groups",
                query=MemberQuery,
                answer=AssignmentAnswer,
                errors=known,
            )
        },
    }
