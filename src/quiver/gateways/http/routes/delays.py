"""Delayed messages: list, show, reschedule, cancel, and statistics."""

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.http.routes.messages.incoming import Duration, Time
from quiver.model.errors import DelayedNotFound, InvalidName, InvalidRequest, PartitionNotFound, TopicNotFound
from quiver.model.limits import LISTED_AT_ONCE
from quiver.model.numbers import shown, whole_number
from quiver.model.priority import NAMES
from quiver.model.schedule import DelayedMessage, DelayedStatus, due_ms
from quiver.model.times import format_time

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_DEFAULT_LIMIT = 1000


class DelayedQuery(msgspec.Struct, kw_only=True):
    limit: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] = _DEFAULT_LIMIT
    skip: Annotated[int, Meta(ge=0)] = 0


class PartitionQuery(msgspec.Struct, kw_only=True):
    partition: (
        Annotated[int, Meta(ge=0, description="May be left out where only one has a message of this id.")] | None
    ) = None


class DelayedResponse(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    id: int
    offset: Annotated[int, Meta(description="The id, as the publish response gave it.")]
    deliver_at: str
    time_remaining: Annotated[float, Meta(description="Seconds; 0 when its time has come.")]
    priority: str
    state: DelayedStatus


class DelayedListResponse(msgspec.Struct, kw_only=True):
    """Pending messages in order of time, and next_skip while there are more."""

    messages: list[DelayedResponse]
    count: Annotated[int, Meta(description="How many are pending.")]
    next_skip: int | UnsetType = UNSET


class CanceledResponse(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    id: int
    offset: int
    canceled: bool = True
    state: DelayedStatus = "cancelled"


class RescheduleRequest(msgspec.Struct, kw_only=True):
    """Either of both."""

    delay: Annotated[Duration, Meta(description="From now; 0 means now.")] = None
    deliver_at: Annotated[Time, Meta(description="A time that has passed means now.")] = None


class LatenessResponse(msgspec.Struct, kw_only=True):
    """Seconds between the time of a message and its arrival in the topic, since the broker was started."""

    p50: float
    p95: float
    p99: float
    max: float


class DelayStatsResponse(msgspec.Struct, kw_only=True):
    pending_count: int
    scheduled_count: int
    delivered_count: int
    cancelled_count: int
    expired_count: Annotated[int, Meta(description="Would have expired before their time.")]
    lost_count: Annotated[int, Meta(description="Could not be read when their time came.")]
    avg_delay: Annotated[float, Meta(description="Seconds, of those delivered since the broker was started.")]
    lateness: LatenessResponse
    pending_by_topic: Annotated[dict[str, int], Meta(description="Topics without any are left out.")]


class DelayedRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        topic, query = request.topic(), request.query(DelayedQuery)
        page = await self._broker.delays.page(topic, skip=query.skip, limit=min(query.limit, LISTED_AT_ONCE))
        now_ms, end = self._broker.clock.now_ms(), query.skip + len(page.messages)
        shown = [_to_response(topic, message, now_ms) for message in page.messages]
        more = end if page.messages and end < page.total else UNSET
        return Response(DelayedListResponse(messages=shown, count=page.total, next_skip=more))

    async def get(self, request: Request) -> Response:
        return await self._get(request, request.partition())

    async def get_by_id(self, request: Request) -> Response:
        return await self._get(request, request.query(PartitionQuery).partition)

    async def cancel(self, request: Request) -> Response:
        return await self._cancel(request, request.partition())

    async def cancel_by_id(self, request: Request) -> Response:
        partition = request.query(PartitionQuery).partition
        if partition is None:
            partition = (await self._broker.delays.get(request.topic(), None, _id_of(request))).partition
        return await self._cancel(request, partition)

    async def reschedule(self, request: Request) -> Response:
        topic, partition, id = request.topic(), request.partition(), _id_of(request)
        wanted = await request.body(RescheduleRequest)
        at_ms = due_ms(wanted.delay, wanted.deliver_at, self._broker.clock.now_ms())
        if id not in await self._broker.delays.reschedule(topic, partition, [id], at_ms):
            raise DelayedNotFound(topic=topic, partition=partition, id=id)
        return await self._get(request, partition)

    async def stats(self, request: Request) -> Response:
        stats = await self._broker.delays.stats()
        lateness = stats.lateness
        return Response(
            DelayStatsResponse(
                pending_count=stats.pending,
                scheduled_count=stats.scheduled,
                delivered_count=stats.delivered,
                cancelled_count=stats.cancelled,
                expired_count=stats.expired,
                lost_count=stats.lost,
                avg_delay=round(stats.average_delay_ms / 1000, 3),
                lateness=LatenessResponse(
                    p50=lateness.percentile_ms(0.5) / 1000,
                    p95=lateness.percentile_ms(0.95) / 1000,
                    p99=lateness.percentile_ms(0.99) / 1000,
                    max=lateness.max_ms / 1000,
                ),
                pending_by_topic=stats.waiting_by_topic,
            )
        )

    async def _get(self, request: Request, partition: int | None) -> Response:
        topic = request.topic()
        message = await self._broker.delays.get(topic, partition, _id_of(request))
        return Response(_to_response(topic, message, self._broker.clock.now_ms()))

    async def _cancel(self, request: Request, partition: int) -> Response:
        topic, id = request.topic(), _id_of(request)
        if id not in await self._broker.delays.cancel(topic, partition, [id]):
            raise DelayedNotFound(topic=topic, partition=partition, id=id)
        return Response(CanceledResponse(topic=topic, partition=partition, id=id, offset=id))


def _id_of(request: Request) -> int:
    text = request.params["id"]
    id = whole_number(text)
    if id is None:
        raise InvalidRequest(problem=f"{shown(text)} is not the id of a delayed message, which is a number")
    return id


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """A time up to its milliseconds: those of a page often share it."""
    return format_time(seconds * 1000).removesuffix("000Z")


def _to_response(topic: str, message: DelayedMessage, now_ms: int) -> DelayedResponse:
    remaining_ms = max(0, message.deliver_at_ms - now_ms) if message.state == "pending" else 0
    return DelayedResponse(
        topic=topic,
        partition=message.partition,
        id=message.id,
        offset=message.id,
        deliver_at=f"{_second(message.deliver_at_ms // 1000)}{message.deliver_at_ms % 1000:03}Z",
        time_remaining=remaining_ms / 1000,
        priority=NAMES[message.priority],
        state=message.state,
    )


def delayed_routes(broker: "Facade") -> Routes:
    routes = DelayedRoutes(broker)
    known = (InvalidRequest, InvalidName, TopicNotFound)
    one = (*known, PartitionNotFound, DelayedNotFound)
    look, cancel = "Show a delayed message", "Cancel a delayed message: it is never delivered"
    tag = "Delays"
    return {
        "/topics/{topic}/delayed": {
            "GET": Operation(
                handler=routes.list,
                summary="List the messages of a topic that wait for their time",
                tag=tag,
                query=DelayedQuery,
                response=DelayedListResponse,
                errors=known,
            )
        },
        "/topics/{topic}/delayed/{partition}/{id}": {
            "GET": Operation(handler=routes.get, summary=look, tag=tag, response=DelayedResponse, errors=one),
            "PATCH": Operation(
                handler=routes.reschedule,
                summary="Deliver a delayed message at another time, or now",
                tag=tag,
                body=RescheduleRequest,
                example={"delay": "1h"},
                response=DelayedResponse,
                errors=one,
            ),
            "DELETE": Operation(
                handler=routes.cancel, summary=cancel, tag=tag, response=CanceledResponse, errors=one
            ),
        },
        "/topics/{topic}/delayed/{id}": {
            "GET": Operation(
                handler=routes.get_by_id,
                summary=look,
                tag=tag,
                query=PartitionQuery,
                response=DelayedResponse,
                errors=one,
            ),
            "DELETE": Operation(
                handler=routes.cancel_by_id,
                summary=cancel,
                tag=tag,
                query=PartitionQuery,
                response=CanceledResponse,
                errors=one,
            ),
        },
        "/delay/stats": {
            "GET": Operation(
                handler=routes.stats,
                summary="How many messages wait, were delivered and cancelled, and how late they came",
                tag=tag,
                response=DelayStatsResponse,
            )
        },
    }
