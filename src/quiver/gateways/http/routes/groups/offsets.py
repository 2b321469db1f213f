"""The position of a group: commits, committed offsets, resets."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import NAME, needed, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request, partition_number
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.groups.groups import group_of
from quiver.gateways.http.routes.groups.responses import DoneResponse
from quiver.model.errors import (
    GenerationMismatch,
    GroupNotEmpty,
    GroupNotFound,
    InvalidName,
    InvalidRequest,
    MemberFenced,
    MemberNotFound,
    PartitionNotFound,
    TopicNotFound,
)
from quiver.model.names import check_name
from quiver.model.position import Position, parse_position
from quiver.model.times import parse_time_ms
from quiver.streams.reset import LikeGroup, ResetTarget

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_NextOffset = Annotated[int, note(minimum=0)]
ByPartition = Annotated[dict[str | int, _NextOffset], Meta(description='Such as {"0": 42}: the next offset to read.')]


class CommitRequest(msgspec.Struct, kw_only=True):
    """Without member_id, which is for tools, the group must have no members; `create` makes one that is missing."""

    member_id: str | None = None
    generation: Annotated[int | None, note("If given, it must be the group's.", minimum=0)] = None
    offsets: Annotated[dict[str, ByPartition] | None, needed()] = None
    metadata: Annotated[str, Meta(max_length=4096)] | None = None
    create: bool | None = None


class GroupOffsetsQuery(msgspec.Struct, kw_only=True):
    topic: Annotated[str | None, note("All topics when absent.", **NAME)] = None


class GroupOffsetsResponse(msgspec.Struct, kw_only=True):
    """The next offset to read, by topic and partition."""

    topics: dict[str, dict[str, int]]
    offsets: dict[str, dict[str, int]]


class ResetRequest(msgspec.Struct, kw_only=True):
    """`to` is earliest, latest, an offset, a time or a time ago (-2h); or offset, time, shift or like, with that
    field."""

    topic: Annotated[str | None, needed(**NAME)] = None
    to: str | int | None = None
    offset: Annotated[int, Meta(ge=0)] | None = None
    time: Annotated[str | int | None, Meta(description="RFC 3339, epoch milliseconds, or -2h.")] = None
    shift: Annotated[int | None, Meta(description="Messages forward, or back if negative.")] = None
    like: Annotated[str | None, Meta(description="Another group: to where that one is.")] = None
    dry_run: bool | None = None


class ResetPartitionResponse(msgspec.Struct):
    old: int | None
    new: int


class ResetResponse(msgspec.Struct, kw_only=True):
    topic: str
    dry_run: bool
    partitions: dict[str, ResetPartitionResponse]


class GroupOffsetRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def commit(self, request: Request) -> Response:
        group = group_of(request)
        wanted = await request.body(CommitRequest)
        if wanted.offsets is None:
            raise InvalidRequest(problem='the body needs "offsets": {topic: {partition: next offset to read}}')
        offsets = {
            check_name(topic): {partition_number(number): offset for number, offset in by_partition.items()}
            for topic, by_partition in wanted.offsets.items()
        }
        await self._broker.streams.commit(
            group,
            offsets,
            member_id=wanted.member_id,
            generation=wanted.generation,
            metadata=wanted.metadata or "",
            creates=bool(wanted.create),
        )
        return Response(DoneResponse())

    async def committed(self, request: Request) -> Response:
        group, query = group_of(request), request.query(GroupOffsetsQuery)
        committed = await self._broker.streams.committed(group)
        if query.topic is not None:
            self._broker.topic(check_name(query.topic))
            committed = {query.topic: committed.get(query.topic, {})}
        shown = {
            topic: {str(number): offset for number, offset in sorted(offsets.items())}
            for topic, offsets in sorted(committed.items())
        }
        return Response(GroupOffsetsResponse(topics=shown, offsets=shown))

    async def reset(self, request: Request) -> Response:
        group = group_of(request)
        wanted = await request.body(ResetRequest)
        if wanted.topic is None:
            raise InvalidRequest(problem='the body needs "topic": the topic to reset the group in')
        to, dry_run = _target(wanted, self._broker.clock.now_ms()), bool(wanted.dry_run)
        changes = await self._broker.offset_reset.reset(group, check_name(wanted.topic), to, dry_run=dry_run)
        shown = {str(change.partition): ResetPartitionResponse(change.old, change.new) for change in changes}
        return Response(ResetResponse(topic=wanted.topic, dry_run=dry_run, partitions=shown))


def group_offset_routes(broker: "Facade") -> Routes:
    routes = GroupOffsetRoutes(broker)
    known = (InvalidRequest, InvalidName, GroupNotFound, TopicNotFound)

    def operation(**more: Any) -> Operation:
        return Operation(tag="Groups", **more)

    return {
        "/groups/{group}/offsets": {
            "POST": operation(
                handler=routes.commit,
                summary="Commit offsets; they are on disk when this returns",
                body=CommitRequest,
                example={"member_id": "web-1-0123456789abcdef", "offsets": {"orders": {"0": 42}}},
                response=DoneResponse,
                errors=(*known, PartitionNotFound, MemberNotFound, MemberFenced, GenerationMismatch, GroupNotEmpty),
            ),
            "GET": operation(
                handler=routes.committed,
                summary="Committed offsets of a group",
                query=GroupOffsetsQuery,
                response=GroupOffsetsResponse,
                errors=known,
            ),
        },
        "/groups/{group}/offsets/reset": {
            "POST": operation(
                handler=routes.reset,
                summary="Reset a group without members in one topic",
                body=ResetRequest,
                example={"topic": "orders", "to": "earliest", "dry_run": True},
                response=ResetResponse,
                errors=(*known, GroupNotEmpty),
            )
        },
    }


def _target(wanted: ResetRequest, now_ms: int) -> ResetTarget:
    fields = {name: getattr(wanted, name) for name in ("offset", "time", "shift", "like")}
    given = [name for name, value in fields.items() if value is not None]
    kind = wanted.to if wanted.to is not None else given[0] if len(given) == 1 else None
    if kind is None:
        raise InvalidRequest(problem='the body needs "to": earliest, latest, offset, time, shift or like')
    if kind not in fields:
        if given:
            raise InvalidRequest(problem=f'"to" says {kind!r}; leave out {", ".join(given)}')
        return parse_position(kind, now_ms, "to")
    if given != [kind]:
        raise InvalidRequest(problem=f'a reset to {kind} needs "{kind}" and none of the others')
    if wanted.shift is not None:
        return wanted.shift
    if wanted.like is not None:
        return LikeGroup(check_name(wanted.like))
    if wanted.offset is not None:
        return Position("offset", wanted.offset)
    return _time(wanted.time, now_ms)


def _time(value: str | int | None, now_ms: int) -> Position:
    if isinstance(value, str) and value.startswith("-"):
        return parse_position(value, now_ms, "time")
    return Position("time", parse_time_ms(value, "time"))
