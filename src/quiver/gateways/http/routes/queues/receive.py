"""POST /topics/{topic}/receive: leases messages to a consumer of a queue group; waits until there are some."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import DURATION, NAME, PRIORITY, needed, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.messages.message_stream import streamed_messages
from quiver.gateways.http.routes.queues.received import ReceivedMessage, Size, shown_runs
from quiver.model.errors import (
    GroupKindMismatch,
    GroupOrderingMismatch,
    InvalidName,
    InvalidRequest,
    Overloaded,
    TopicNotFound,
)
from quiver.model.limits import LONGEST_WAIT_MS, MESSAGES_AT_ONCE
from quiver.model.names import check_name
from quiver.model.position import parse_position
from quiver.model.priority import parse_priority
from quiver.model.queue import QUEUE_SETTINGS, Ordering
from quiver.model.queue import ReceiveRequest as QueueRequest
from quiver.model.times import parse_duration_ms

if TYPE_CHECKING:
    from quiver.queues.service import Received
    from quiver.routing.facade import Facade


class ReceiveRequest(msgspec.Struct, kw_only=True):
    group: Annotated[str | None, needed(**NAME)] = None
    consumer: Annotated[
        Annotated[str, Meta(max_length=240)] | None,
        Meta(description="The name that max_unacked is counted for; by default the connection."),
    ] = None
    max_messages: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] | None = None
    wait: Annotated[
        str | int | float | None, note("How long to wait while there is nothing; at most 5m.", **DURATION)
    ] = None
    visibility: Annotated[
        str | int | float | None, note("How long the lease lasts; by default the group's setting.", **DURATION)
    ] = None
    ordering: Annotated[Ordering | None, Meta(description="Fixed at the group's first use.")] = None
    priority: Annotated[str | int | None, note("Only messages of this priority.", **PRIORITY)] = None
    start: Annotated[
        str | int | None, note("Where a new group starts: earliest (default), latest, an offset, a time.", minimum=0)
    ] = None


class ReceiveResponse(msgspec.Struct):
    """In the order of delivery; empty when nothing came in time, or while the consumer holds max_unacked."""

    messages: list[ReceivedMessage]


class ReceiveRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def receive(self, request: Request) -> Response | StreamedResponse:
        topic = request.topic()
        wanted = await request.body(ReceiveRequest)
        request.check_room()
        request.waits = True
        received = await self._wait(request, topic, wanted)
        request.if_unsent(partial(self._broker.queues.give_back_later, received))
        size = Size(received)
        if size.is_small:
            return Response(ReceiveResponse([message for run in shown_runs(received) for message in run]))
        request.hold(size.bytes)
        media = request.response_media
        return StreamedResponse(streamed_messages(media, shown_runs(received), size.messages), media)

    async def _wait(self, request: Request, topic: str, wanted: ReceiveRequest) -> "list[Received]":
        """Receives as long as the client is connected: what it does not get must not count as delivered."""
        asked = self._asked(topic, wanted, request.connection)
        return await request.while_connected(self._broker.queues.receive(asked))

    def _asked(self, topic: str, wanted: ReceiveRequest, connection: str) -> QueueRequest:
        """A request that does not fit is refused before its topic is looked for."""
        if wanted.group is None:
            raise InvalidRequest(problem='the body needs "group": the queue group to receive for')
        now_ms = self._broker.clock.now_ms()
        return QueueRequest(
            group=check_name(wanted.group, "group"),
            consumer=wanted.consumer or connection,
            max_messages=min(wanted.max_messages or 10, MESSAGES_AT_ONCE),
            wait_ms=0 if wanted.wait is None else min(parse_duration_ms(wanted.wait, "wait"), LONGEST_WAIT_MS),
            visibility_ms=None if wanted.visibility is None else _visibility_ms(wanted.visibility),
            ordering=wanted.ordering,
            priority=None if wanted.priority is None else parse_priority(wanted.priority),
            start=None if wanted.start is None else parse_position(wanted.start, now_ms),
            topic_ids=[self._broker.topic(topic).id],
        )


def receive_routes(broker: "Facade") -> Routes:
    operation = Operation(
        handler=ReceiveRoute(broker).receive,
        summary="Lease messages for a queue group; waits until there are some",
        tag="Queues",
        body=ReceiveRequest,
        example={"group": "senders", "max_messages": 10, "wait": "20s", "visibility": "30s"},
        response=ReceiveResponse,
        errors=(InvalidRequest, InvalidName, TopicNotFound, GroupKindMismatch, GroupOrderingMismatch, Overloaded),
    )
    return {"/topics/{topic}/receive": {"POST": operation}}


def _visibility_ms(value: object) -> int:
    try:
        return int(QUEUE_SETTINGS["visibility"].parse(value))
    except ValueError as error:
        raise InvalidRequest(problem=f"visibility {error}") from None
