"""GET the life of a message: what happened to it, and where it is now for each group."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.model.errors import (
    CorruptData,
    InvalidName,
    InvalidRequest,
    MessageNotFound,
    PartitionNotFound,
    TopicNotFound,
)
from quiver.model.numbers import shown, whole_number
from quiver.model.times import format_time
from quiver.model.trace.life import FrameFacts, Happening, LifeEvent, MessageLife, Place, Standing

if TYPE_CHECKING:
    from quiver.routing.facade import Facade


class PlaceResponse(msgspec.Struct, kw_only=True):
    topic: str
    partition: int
    offset: Annotated[int | None, Meta(description="null: it is not there yet, or was not found.")]


class LifeEventResponse(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a field does not apply to does not have it."""

    event: Happening
    time: Annotated[str | None, Meta(description="null: the time is not known any more.")]
    group: str | UnsetType = UNSET
    consumer: str | UnsetType = UNSET
    attempt: int | UnsetType = UNSET
    duration_ms: Annotated[int | UnsetType, Meta(description="How long the consumer had the message.")] = UNSET
    error: str | UnsetType = UNSET
    reason: Annotated[str | UnsetType, Meta(description="Why it is a dead letter.")] = UNSET
    until: Annotated[
        str | UnsetType, Meta(description="When the lease ends, the next delivery is due, or the delay is over.")
    ] = UNSET
    to: PlaceResponse | UnsetType = UNSET
    origin: PlaceResponse | UnsetType = UNSET
    delayed_id: Annotated[int | UnsetType, Meta(description="Its id among the delayed messages.")] = UNSET
    transaction_id: str | UnsetType = UNSET


class GroupStandingResponse(msgspec.Struct, kw_only=True):
    group: str
    kind: str
    state: Standing
    attempts: int


class FrameResponse(msgspec.Struct, kw_only=True):
    """The frame that the message lies in, with others that were sent together with it."""

    first_offset: int
    last_offset: int
    messages: int
    stored_bytes: int
    body_bytes: Annotated[int, Meta(description="Before compression.")]
    compression: str
    producer_id: Annotated[int | None, Meta(description="null: its producer is not idempotent.")]


class LifeResponse(msgspec.Struct, kw_only=True):
    """`events` are in order; `groups` says where the message is now for each group."""

    topic: str
    partition: int
    offset: int
    events: list[LifeEventResponse]
    groups: list[GroupStandingResponse]
    known_since: Annotated[
        str | None, Meta(description="Deliveries before this time are not known any more; null: all are known.")
    ]
    notes: Annotated[list[str], Meta(description="What could not be found out.")]
    trace_id: str | None
    frame: FrameResponse | None


class LifeRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def get(self, request: Request) -> Response:
        text = request.params["offset"]
        offset = whole_number(text)
        if offset is None:
            raise InvalidRequest(problem=f"{shown(text)} is not an offset, which is a number from 0 on")
        life = await self._broker.life.of(request.topic(), request.partition(), offset)
        return Response(_to_response(life))


def _to_response(life: MessageLife) -> LifeResponse:
    return LifeResponse(
        topic=life.topic,
        partition=life.partition,
        offset=life.offset,
        events=[_event(event) for event in life.events],
        groups=[
            GroupStandingResponse(group=each.group, kind=each.kind, state=each.state, attempts=each.attempts)
            for each in life.groups
        ],
        known_since=_time(life.known_since_ms),
        notes=life.notes,
        trace_id=life.trace or None,
        frame=None if life.frame is None else _frame(life.frame),
    )


def _frame(frame: FrameFacts) -> FrameResponse:
    return FrameResponse(
        first_offset=frame.first_offset,
        last_offset=frame.last_offset,
        messages=frame.messages,
        stored_bytes=frame.stored_bytes,
        body_bytes=frame.body_bytes,
        compression=frame.compression,
        producer_id=None if frame.producer_id < 0 else frame.producer_id,
    )


def _event(event: LifeEvent) -> LifeEventResponse:
    return LifeEventResponse(
        event=event.event,
        time=_time(event.time_ms),
        group=event.group or UNSET,
        consumer=event.consumer or UNSET,
        attempt=event.attempt or UNSET,
        duration_ms=UNSET if event.duration_ms is None else event.duration_ms,
        error=event.error or UNSET,
        reason=event.reason or UNSET,
        until=_time(event.until_ms) or UNSET,
        to=_place(event.to),
        origin=_place(event.origin),
        delayed_id=UNSET if event.delayed_id is None else event.delayed_id,
        transaction_id=event.transaction or UNSET,
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time(time_ms)


def _place(place: Place | None) -> PlaceResponse | UnsetType:
    if place is None:
        return UNSET
    return PlaceResponse(topic=place.topic, partition=place.partition, offset=place.offset)


def life_routes(broker: "Facade") -> Routes:
    return {
        "/topics/{topic}/partitions/{partition}/messages/{offset}/life": {
            "GET": Operation(
                handler=LifeRoute(broker).get,
                summary="What happened to a message, and where it is now for each group",
                tag="Traces",
                response=LifeResponse,
                errors=(
                    InvalidRequest,
                    InvalidName,
                    TopicNotFound,
                    PartitionNotFound,
                    MessageNotFound,
                    CorruptData,
                ),
            )
        }
    }
