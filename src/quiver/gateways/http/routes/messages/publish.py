"""POST /topics/{topic}/messages: single messages, published on the same path as frames."""

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import needed, note, one_of
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Begun, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, error_response
from quiver.gateways.http.routes.messages.incoming import MessageToPublish, new_message
from quiver.model.errors import (
    DiskFull,
    InvalidName,
    InvalidRequest,
    Overloaded,
    PartitionOffline,
    QuiverError,
    RequestTooLarge,
    TopicNotFound,
    UnsupportedMediaType,
    error_from_wire,
)
from quiver.model.limits import PUBLISHED_AT_ONCE
from quiver.model.message import Acks, NewMessage
from quiver.model.numbers import shown
from quiver.model.priority import Priority
from quiver.model.times import format_time
from quiver.model.trace.traceparent import TRACEPARENT, parse_traceparent

if TYPE_CHECKING:
    from quiver.messages.publish import Published
    from quiver.partition.pending import Appended
    from quiver.routing.facade import Facade

logger = logging.getLogger(__name__)
T = TypeVar("T")

_TRACEPARENT = TRACEPARENT.encode()
_SLICED_BODY_BYTES = 256 * 1024
"""A larger body is decoded and converted in slices, so that it does not block the event loop."""
_SLICE_MESSAGES = 500
_SLICE_BYTES = 1024 * 1024
_PUBLISHED_AT_ONCE = 5_000
_ACKS = one_of(Acks)
_NOT_KNOWN = -1
"""The offset in a response that waits for nothing."""


class PublishRequest(msgspec.Struct):
    messages: Annotated[list[MessageToPublish] | None, needed(maxItems=PUBLISHED_AT_ONCE)] = None
    acks: Annotated[
        str | None,
        note(
            "all (default): every replica in sync has the messages; leader: one has; none: offsets are -1.", **_ACKS
        ),
    ] = None


class _UndecodedMessages(msgspec.Struct):
    messages: list[msgspec.Raw] | None = None
    acks: str | None = None


class PublishResult(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Where a message went; with `error`, why it was not stored."""

    partition: int | None
    offset: int | None
    priority: str | msgspec.UnsetType = msgspec.UNSET
    duplicate: Annotated[
        bool | msgspec.UnsetType, Meta(description="Its id was known; this is where the first message with it is.")
    ] = msgspec.UNSET
    delayed: Annotated[bool | msgspec.UnsetType, Meta(description="It waits; offset is its id in /delayed.")] = (
        msgspec.UNSET
    )
    buffered: Annotated[
        bool | msgspec.UnsetType,
        Meta(description="The database is away: it is in the broker's local buffer, and is stored later."),
    ] = msgspec.UNSET
    deliver_at: str | msgspec.UnsetType = msgspec.UNSET
    deliver_at_camel: str | msgspec.UnsetType = msgspec.field(name="deliverAt", default=msgspec.UNSET)
    error: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    retryable: bool | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET


class PublishResponse(msgspec.Struct):
    """Results in the order of the request."""

    results: list[PublishResult]


class PublishRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    def begin(self, request: Request) -> Begun | Response | None:
        """A small request with one message needs no task: it waits for the message and for nothing else."""
        topic = request.topic()
        batch = request.body_at_once(PublishRequest)
        if batch is None or batch.messages is None or len(batch.messages) != 1 or batch.acks is not None:
            return None
        message = _prepared(batch.messages[0], request.media, self._broker.clock.now_ms())
        if isinstance(message, QuiverError):
            return _response([_refused(message)])
        if _TRACEPARENT in request.headers:
            message = _traced(message, request.headers[_TRACEPARENT])
        try:
            begun = self._broker.begin_publish(topic, message)
        except TopicNotFound:
            return None  # it may have to be created, and that takes time
        if isinstance(begun, QuiverError):
            return _response([_refused(begun)])
        return Begun(begun.future, lambda: _single(message, begun.outcome()))

    async def publish(self, request: Request) -> Response:
        topic, media = request.topic(), request.media
        batch: PublishRequest | None = request.read
        if batch is None:
            content = await request.content()
            if len(content) > _SLICED_BODY_BYTES:
                prepared, acks = await self._prepare_sliced(content, media)
            else:
                batch = media.decode(content, PublishRequest) if content else PublishRequest()
            del content
        if batch is not None:
            now_ms = self._broker.clock.now_ms()
            prepared = [_prepared(message, media, now_ms) for message in _accepted(batch.messages)]
            acks = _acks(batch.acks)
        if _TRACEPARENT in request.headers:
            parent = request.headers[_TRACEPARENT]
            prepared = [each if isinstance(each, QuiverError) else _traced(each, parent) for each in prepared]
        if acks == "leader":
            prepared = [_with_acks(each) for each in prepared]
        elif acks == "none":
            await self._broker.publish(topic, [])  # there is such a topic
            return _response([self._queue(topic, each) for each in prepared])
        results: list[PublishResult] = []
        for start in range(0, max(len(prepared), 1), _PUBLISHED_AT_ONCE):
            results += await self._publish(topic, prepared[start : start + _PUBLISHED_AT_ONCE])
        return _response(results)

    def _queue(self, topic: str, message: NewMessage | QuiverError) -> PublishResult:
        """Waits for nothing, and says only why a message was refused at once."""
        begun = message if isinstance(message, QuiverError) else self._broker.begin_publish(topic, message)
        if isinstance(begun, QuiverError):
            return _refused(begun)
        begun.future.add_done_callback(_note_end)
        return PublishResult(partition=begun.partition, offset=_NOT_KNOWN)

    async def _prepare_sliced(self, content: bytes, media: Media) -> tuple[list[NewMessage | QuiverError], str]:
        """Does the same as for a small body, with a pause after every 500 messages or half a megabyte."""
        now_ms = self._broker.clock.now_ms()
        prepared: list[NewMessage | QuiverError] = []
        count = size = 0
        await asyncio.sleep(0)
        request = media.decode(content, _UndecodedMessages)
        acks = _acks(request.acks)
        for raw in _accepted(request.messages):
            prepared.append(_prepared(media.decode(raw, MessageToPublish), media, now_ms))
            count, size = count + 1, size + memoryview(raw).nbytes
            if count >= _SLICE_MESSAGES or size >= _SLICE_BYTES:
                count = size = 0
                await asyncio.sleep(0)
        return prepared, acks

    async def _publish(self, topic: str, prepared: list[NewMessage | QuiverError]) -> list[PublishResult]:
        """What became of each message, in order; those that were refused already keep their error."""
        good = [message for message in prepared if not isinstance(message, QuiverError)]
        published = iter(await self._broker.publish(topic, good))
        return [
            _refused(message) if isinstance(message, QuiverError) else _result(message, next(published))
            for message in prepared
        ]


def _traced(message: NewMessage, parent: bytes) -> NewMessage:
    """The message in the trace of its request, unless it is in one of its own."""
    headers = message.headers or {}
    if TRACEPARENT in headers or parse_traceparent(parent) is None:
        return message
    return msgspec.structs.replace(message, headers={**headers, TRACEPARENT: parent})


def publish_routes(broker: "Facade") -> Routes:
    route = PublishRoute(broker)
    operation = Operation(
        handler=route.publish,
        begin=route.begin,
        summary="Publish messages; 200 also when some of them fail",
        tag="Messages",
        body=PublishRequest,
        example={"messages": [{"key": "customer-7", "value": {"id": 1}}]},
        response=PublishResponse,
        errors=(
            InvalidRequest,
            InvalidName,
            TopicNotFound,
            RequestTooLarge,
            UnsupportedMediaType,
            DiskFull,
            PartitionOffline,
            Overloaded,
        ),
    )
    return {"/topics/{topic}/messages": {"POST": operation}}


def _acks(given: str | None) -> str:
    if given not in (None, *get_args(Acks)):
        raise InvalidRequest(problem=f"acks {shown(given)} is not one of {', '.join(get_args(Acks))}")
    return given or "all"


def _with_acks(message: NewMessage | QuiverError) -> NewMessage | QuiverError:
    return message if isinstance(message, QuiverError) else msgspec.structs.replace(message, acks="leader")


def _note_end(future: "asyncio.Future[Appended]") -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        logger.info("a message with acks=none was not stored: %s", error)


def _accepted(messages: list[T] | None) -> list[T]:
    if messages is None:
        raise InvalidRequest(problem='the body needs "messages": a list of messages')
    if len(messages) > PUBLISHED_AT_ONCE:
        raise RequestTooLarge(
            f"{len(messages)} messages at once are over the limit of {PUBLISHED_AT_ONCE}; split them"
        )
    return messages


def _prepared(message: MessageToPublish, media: Media, now_ms: int) -> NewMessage | QuiverError:
    try:
        return new_message(message, media, now_ms)
    except QuiverError as error:
        return error


def _single(message: NewMessage, outcome: "Published | QuiverError") -> Response:
    result = _result(message, outcome)
    return Response(PublishResponse([result])) if result.offset is not None else _response([result])


def _result(message: NewMessage, outcome: "Published | QuiverError") -> PublishResult:
    if isinstance(outcome, QuiverError):
        return _refused(outcome)
    result = PublishResult(partition=outcome.partition, offset=outcome.offset)
    if message.priority is not Priority.NORMAL:
        result.priority = message.priority.name.lower()
    if outcome.duplicate:
        result.duplicate = True
    if outcome.delayed:
        result.delayed = True
    if outcome.buffered:
        result.buffered = True
    if outcome.delayed and not outcome.duplicate:
        result.deliver_at = result.deliver_at_camel = format_time(message.deliver_at_ms or 0)
    return result


def _refused(error: QuiverError) -> PublishResult:
    return PublishResult(
        partition=None,
        offset=None,
        error=error.message,
        code=error.code,
        retryable=error.retryable,
        status=error.status,
    )


def _response(results: list[PublishResult]) -> Response:
    """200, unless every message was refused for the same passing reason: then that error, with the results."""
    first = results[0] if results else None
    if first is None or first.retryable is not True or any(result.code != first.code for result in results):
        return Response(PublishResponse(results))
    response = error_response(error_from_wire(str(first.code), str(first.error), retryable=True))
    response.body = {**response.body, "results": results}
    return response
