"""Traces that consumers write about messages: events with names, found by message or by name."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import needed
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import random_id
from quiver.gateways.queen.incoming import ABSENT, absent, json_text
from quiver.gateways.queen.messages import payload, shown_time
from quiver.gateways.queen.routes.operations import queen_operation
from quiver.gateways.queen.trace_log import TraceEvent, TraceLog
from quiver.model.errors import InvalidRequest
from quiver.model.limits import LISTED_AT_ONCE

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_MOST_NAMES = 100


class TraceRequest(msgspec.Struct, kw_only=True, rename="camel"):
    transaction_id: Annotated[str | None, needed()] = None
    partition_id: Annotated[str | None, needed()] = None
    data: Annotated[msgspec.Raw, needed("Any JSON.")] = msgspec.field(default_factory=absent)
    trace_names: str | list[str] | None = None
    event_type: str | None = None
    consumer_group: str | None = None


class TraceWritten(msgspec.Struct, kw_only=True, rename="camel"):
    success: bool
    trace_id: str


class QueenTrace(msgspec.Struct, kw_only=True):
    id: str
    transaction_id: str
    partition_id: str
    event_type: str | None
    consumer_group: str | None
    trace_names: list[str]
    data: Any
    created_at: str


class TraceList(msgspec.Struct, kw_only=True):
    traces: list[QueenTrace]
    total: int


class TraceName(msgspec.Struct, kw_only=True):
    trace_name: str
    trace_count: int
    message_count: int
    last_seen: str


class TraceNames(msgspec.Struct, kw_only=True):
    names: list[TraceName]


class TraceQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=LISTED_AT_ONCE)] = 100
    offset: Annotated[int, Meta(ge=0, le=LISTED_AT_ONCE)] = 0


class TraceRoutes:
    def __init__(self, log: TraceLog) -> None:
        self._log = log

    async def write(self, request: Request) -> Response:
        wanted = await request.body(TraceRequest)
        if not wanted.transaction_id or not wanted.partition_id or wanted.data is ABSENT:
            raise InvalidRequest(problem='the body needs "transactionId", "partitionId" and "data"')
        names = [wanted.trace_names] if isinstance(wanted.trace_names, str) else wanted.trace_names or []
        if len(names) > _MOST_NAMES:
            raise InvalidRequest(problem=f"a trace has at most {_MOST_NAMES} names")
        event = TraceEvent(
            id=random_id(),
            transaction_id=wanted.transaction_id,
            partition_id=wanted.partition_id,
            event_type=wanted.event_type,
            consumer_group=wanted.consumer_group,
            names=names,
            data=msgspec.Raw(json_text(wanted.data, request.media)),
        )
        await self._log.write(event)
        return Response(TraceWritten(success=True, trace_id=event.id), 201)

    async def of_message(self, request: Request) -> Response:
        partition, transaction = unquote(request.params["partition_id"]), unquote(request.params["transaction"])
        found = await self._log.of_message(partition, transaction)
        return Response(_list(found, TraceQuery(limit=LISTED_AT_ONCE), request.response_media))

    async def by_name(self, request: Request) -> Response:
        name, query = unquote(request.params["name"]), request.query(TraceQuery)
        found = [each for each in await self._log.newest() if name in each.names]
        return Response(_list(found, query, request.response_media))

    async def names(self, request: Request) -> Response:
        query = request.query(TraceQuery)
        by_name: dict[str, list[TraceEvent]] = {}
        for event in await self._log.newest():
            for name in event.names:
                by_name.setdefault(name, []).append(event)
        shown = [
            TraceName(
                trace_name=name,
                trace_count=len(events),
                message_count=len({(each.partition_id, each.transaction_id) for each in events}),
                last_seen=shown_time(events[0].time_ms),
            )
            for name, events in by_name.items()
        ]
        return Response(TraceNames(names=shown[query.offset : query.offset + query.limit]))


def _list(found: Iterable[TraceEvent], query: TraceQuery, media: Media) -> TraceList:
    events = list(found)
    return TraceList(
        traces=[
            QueenTrace(
                id=each.id,
                transaction_id=each.transaction_id,
                partition_id=each.partition_id,
                event_type=each.event_type,
                consumer_group=each.consumer_group,
                trace_names=each.names,
                data=payload(bytes(each.data), media),
                created_at=shown_time(each.time_ms),
            )
            for each in events[query.offset : query.offset + query.limit]
        ],
        total=len(events),
    )


def queen_trace_routes(broker: "Facade") -> Routes:
    routes, root = TraceRoutes(TraceLog(broker)), "/api/v1/traces"
    example = {"transactionId": "order-1", "partitionId": "1-RGVmYXVsdA", "data": {"step": "paid"}}
    return {
        root: {
            "POST": queen_operation(
                routes.write,
                "Write an event about a message",
                TraceWritten,
                body=TraceRequest,
                example=example,
                status=201,
            )
        },
        f"{root}/names": {
            "GET": queen_operation(routes.names, "Names of the newest 10,000 events", TraceNames, query=TraceQuery)
        },
        f"{root}/by-name/{{name}}": {
            "GET": queen_operation(
                routes.by_name, "Events with a name, the newest first", TraceList, query=TraceQuery
            )
        },
        f"{root}/{{partition_id}}/{{transaction}}": {
            "GET": queen_operation(routes.of_message, "Events about a message, the newest first", TraceList)
        },
    }
