"""Traces of sampled messages: the newest, those that fit, one with all its spans."""

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import InvalidRequest, TraceNotFound
from quiver.model.times import format_time, parse_duration_ms, parse_time_ms
from quiver.model.trace.span import Span, SpanEvent, Trace, TraceFilter, TraceStatus

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_MOST = 1_000
_Limit = Annotated[int, Meta(ge=1, description="At most 1,000; a larger one counts as that.")]


class TracesQuery(msgspec.Struct, kw_only=True):
    limit: _Limit = 100


class TraceSearchQuery(msgspec.Struct, kw_only=True):
    """A trace fits if one of its spans has topic, partition, group and key, and the trace has the rest."""

    topic: str | None = None
    partition: Annotated[int, Meta(ge=0)] | None = None
    consumer_group: str | None = None
    key: str | None = None
    start: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds: began then or later.")] = None
    end: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds: began then or before.")] = None
    status: TraceStatus | None = None
    min_duration: Annotated[str | None, Meta(description="Such as 500ms.")] = None
    limit: _Limit = 100


class TraceSummary(msgspec.Struct, kw_only=True):
    """`topic`, `partition` and `offset` are those of the first span."""

    trace_id: str
    topic: str
    partition: int
    offset: int
    start_time: str
    end_time: str
    duration_ms: int
    status: TraceStatus
    span_count: int


class TraceListResponse(msgspec.Struct, kw_only=True):
    traces: list[TraceSummary]
    total: Annotated[int, Meta(description="Of this list.")]


class SpanResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    span_id: str
    event_type: SpanEvent
    timestamp: str
    topic: str
    partition: int
    offset: int
    parent_span_id: str | UnsetType = UNSET
    consumer_group: str | UnsetType = UNSET
    consumer_id: str | UnsetType = UNSET
    duration_ns: int | UnsetType = UNSET
    error: str | UnsetType = UNSET
    attributes: dict[str, Any] | UnsetType = UNSET


class TraceResponse(TraceSummary, kw_only=True):
    spans: list[SpanResponse]


class TraceStatsResponse(msgspec.Struct, kw_only=True):
    enabled: bool
    spans_in_buffer: Annotated[int, Meta(description="Frames with sampled messages that wait for the next round.")]
    buffer_capacity: int
    traces_indexed: Annotated[int, Meta(description="Messages whose deliveries are followed.")]
    spans_written: int
    spans_dropped: int
    sampling_rate: Annotated[float, Meta(description="Of messages that come without a decision: none.")]
    exporters_enabled: Annotated[list[str], Meta(description="Exporters are readers of the topic: none run here.")]


class TraceRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        limit = min(request.query(TracesQuery).limit, _MOST)
        return _listed(await self._broker.traces.search(TraceFilter(), limit))

    async def search(self, request: Request) -> Response:
        query = request.query(TraceSearchQuery)
        wanted = TraceFilter(
            topic=query.topic,
            partition=query.partition,
            group=query.consumer_group,
            key=query.key,
            start_ms=None if query.start is None else parse_time_ms(query.start, "start"),
            end_ms=None if query.end is None else parse_time_ms(query.end, "end"),
            status=query.status,
            min_duration_ms=None if query.min_duration is None else parse_duration_ms(query.min_duration),
        )
        return _listed(await self._broker.traces.search(wanted, min(query.limit, _MOST)))

    async def get(self, request: Request) -> Response:
        trace = await self._broker.traces.get(request.params["trace"])
        return Response(TraceResponse(**_summary(trace), spans=[_span(span) for span in trace.spans]))

    async def stats(self, request: Request) -> Response:
        stats = await self._broker.traces.stats()
        return Response(
            TraceStatsResponse(
                enabled=stats.enabled,
                spans_in_buffer=stats.spans_in_buffer,
                buffer_capacity=stats.buffer_capacity,
                traces_indexed=stats.traces_indexed,
                spans_written=stats.spans_written,
                spans_dropped=stats.spans_dropped,
                sampling_rate=0.0,
                exporters_enabled=[],
            )
        )


def _listed(traces: list[Trace]) -> Response:
    return Response(
        TraceListResponse(traces=[TraceSummary(**_summary(trace)) for trace in traces], total=len(traces))
    )


def _summary(trace: Trace) -> dict[str, Any]:
    first = trace.spans[0]
    return {
        "trace_id": trace.trace_id,
        "topic": first.topic,
        "partition": first.partition,
        "offset": first.offset,
        "start_time": format_time(trace.start_ms),
        "end_time": format_time(trace.end_ms),
        "duration_ms": trace.end_ms - trace.start_ms,
        "status": trace.status,
        "span_count": len(trace.spans),
    }


def _span(span: Span) -> SpanResponse:
    attributes = {"key": span.key or None, "attempt": span.attempt or None}
    given = {name: value for name, value in attributes.items() if value is not None}
    return SpanResponse(
        span_id=span.span_id,
        event_type=span.event_type,
        timestamp=format_time(span.time_ms),
        topic=span.topic,
        partition=span.partition,
        offset=span.offset,
        parent_span_id=span.parent_span_id or UNSET,
        consumer_group=span.group or UNSET,
        consumer_id=span.consumer or UNSET,
        duration_ns=span.duration_ms * 1_000_000 or UNSET,
        error=span.error or UNSET,
        attributes=given or UNSET,
    )


def trace_routes(broker: "Facade") -> Routes:
    routes = TraceRoutes(broker)
    tag = "Traces"
    return {
        "/traces": {
            "GET": Operation(
                handler=routes.list,
                summary="The newest traces of sampled messages",
                tag=tag,
                query=TracesQuery,
                response=TraceListResponse,
                errors=(InvalidRequest,),
            )
        },
        "/traces/search": {
            "GET": Operation(
                handler=routes.search,
                summary="The newest traces that fit",
                tag=tag,
                query=TraceSearchQuery,
                response=TraceListResponse,
                errors=(InvalidRequest,),
            )
        },
        "/traces/stats": {
            "GET": Operation(
                handler=routes.stats,
                summary="How many spans were written and dropped",
                tag=tag,
                response=TraceStatsResponse,
            )
        },
        "/traces/{trace}": {
            "GET": Operation(
                handler=routes.get,
                summary="A trace with all its spans",
                tag=tag,
                response=TraceResponse,
                errors=(InvalidRequest, TraceNotFound),
            )
        },
    }
