"""POST /topics/{topic}/messages: single messages into the log, on the same path as everybody's frames."""

import asyncio
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from quiver.gateways.http.answer import Answer, error_answer
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
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
)
from quiver.model.message import NewMessage
from quiver.model.priority import NAMES, Priority, parse_priority
from quiver.model.times import parse_duration_ms, parse_time_ms

if TYPE_CHECKING:
    from quiver.broker.broker import Broker

_ABSENT = msgspec.Raw()
_SLICED_BODY_BYTES = 256 * 1024
"""A larger body is decoded and converted in slices, so that it does not hold the event loop."""
_SLICE = 500
_PUBLISHED_AT_ONCE = 10_000

Text = Annotated[msgspec.Raw, Meta(description="Text, or any JSON, which is kept as its text.")]
Base64 = Annotated[str | None, Meta(description="Base64, for bytes that are not text.")]
Duration = Annotated[str | int | float | None, Meta(description="Such as 500ms, 30s or 1h30m, or seconds.")]
Time = Annotated[str | int | float | None, Meta(description="RFC 3339 or epoch milliseconds.")]


def _absent() -> msgspec.Raw:
    return _ABSENT


class MessageToPublish(msgspec.Struct, kw_only=True):
    """One of value, value_base64 or tombstone is needed."""

    value: Text = msgspec.field(default_factory=_absent)
    value_base64: Base64 = None
    tombstone: Annotated[bool | None, Meta(description="True writes a null value.")] = None
    key: Text = msgspec.field(default_factory=_absent)
    key_base64: Base64 = None
    headers: dict[str, str | None] | None = None
    headers_base64: dict[str, str | None] | None = None
    timestamp: Time = None
    partition: Annotated[int | None, Meta(description="Chosen by key, or spread evenly, when absent.")] = None
    priority: Annotated[str | int | None, Meta(description=f"{', '.join(NAMES)}, or 0 to 4.")] = None
    ttl: Duration = None
    id: str | None = None
    delay: Duration = None
    deliver_at: Time = None
    deliver_at_camel: Time = msgspec.field(name="deliverAt", default=None)


class PublishRequest(msgspec.Struct):
    messages: list[MessageToPublish] | None = None


class _UndecodedMessages(msgspec.Struct):
    messages: list[msgspec.Raw] | None = None


class PublishResult(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Where a message went; with `error`, why it was not stored."""

    partition: int | None
    offset: int | None
    priority: str | msgspec.UnsetType = msgspec.UNSET
    duplicate: bool | msgspec.UnsetType = msgspec.UNSET
    error: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    retryable: bool | msgspec.UnsetType = msgspec.UNSET
    status: int | msgspec.UnsetType = msgspec.UNSET


class PublishAnswer(msgspec.Struct):
    """Results in the order of the request."""

    results: list[PublishResult]


class PublishRoute:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def publish(self, request: Request) -> Answer:
        topic, media = request.topic(), request.media
        content = await request.content()
        if len(content) > _SLICED_BODY_BYTES:
            prepared = await self._prepare_sliced(content, media)
        else:
            batch = media.decode(content, PublishRequest) if content else PublishRequest()
            prepared = self._prepare(_required(batch.messages), media)
        del content
        outcomes = await self._publish(topic, prepared)
        results = [_result(message, outcome) for message, outcome in zip(prepared, outcomes, strict=True)]
        return _answer(results, outcomes)

    def _prepare(self, messages: Sequence[MessageToPublish], media: Media) -> list[NewMessage | QuiverError]:
        now_ms = self._broker.clock.now_ms()
        return [_prepared(message, media, now_ms) for message in messages]

    async def _prepare_sliced(self, content: bytes, media: Media) -> list[NewMessage | QuiverError]:
        undecoded = _required(media.decode(content, _UndecodedMessages).messages)
        prepared: list[NewMessage | QuiverError] = []
        for start in range(0, len(undecoded), _SLICE):
            part = [media.decode(raw, MessageToPublish) for raw in undecoded[start : start + _SLICE]]
            prepared += self._prepare(part, media)
            await asyncio.sleep(0)
        return prepared

    async def _publish(self, topic: str, prepared: list[NewMessage | QuiverError]) -> list[Any]:
        """What became of each message, in order; those that were refused already keep their error."""
        good = [message for message in prepared if not isinstance(message, QuiverError)]
        if len(good) == len(prepared) <= _PUBLISHED_AT_ONCE:
            return await self._broker.publish(topic, good)
        published: list[Any] = []
        for start in range(0, max(len(good), 1), _PUBLISHED_AT_ONCE):
            published += await self._broker.publish(topic, good[start : start + _PUBLISHED_AT_ONCE])
        remaining = iter(published)
        return [message if isinstance(message, QuiverError) else next(remaining) for message in prepared]


def publish_routes(broker: "Broker") -> Routes:
    operation = Operation(
        handler=PublishRoute(broker).publish,
        summary="Publish messages; 200 also when some of them fail",
        tag="Messages",
        body=PublishRequest,
        answer=PublishAnswer,
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


def _required(messages: list[Any] | None) -> list[Any]:
    if messages is None:
        raise InvalidRequest(problem='the body needs "messages": a list of messages')
    return messages


def _prepared(message: MessageToPublish, media: Media, now_ms: int) -> NewMessage | QuiverError:
    try:
        return new_message(message, media, now_ms)
    except QuiverError as error:
        return error


def new_message(message: MessageToPublish, media: Media, now_ms: int) -> NewMessage:
    """The message as the broker takes it; a QuiverError says what is wrong with it.

    The time a delayed message is due is passed on; whether delays exist is the broker's to say.
    """
    if message.delay is not None:
        deliver_at_ms: int | None = now_ms + parse_duration_ms(message.delay, "delay")
    else:
        due = message.deliver_at if message.deliver_at is not None else message.deliver_at_camel
        deliver_at_ms = None if due is None else parse_time_ms(due, "deliver_at")
    return NewMessage(
        value=_value(message, media),
        key=_bytes_of("key", message.key, message.key_base64, media),
        headers=_headers(message) if message.headers or message.headers_base64 else None,
        timestamp_ms=None if message.timestamp is None else parse_time_ms(message.timestamp, "timestamp"),
        partition=message.partition,
        priority=Priority.NORMAL if message.priority is None else parse_priority(message.priority),
        deliver_at_ms=deliver_at_ms,
        expires_at_ms=None if message.ttl is None else now_ms + parse_duration_ms(message.ttl, "ttl"),
        id=None if message.id is None else message.id.encode(),
    )


def _value(message: MessageToPublish, media: Media) -> bytes | None:
    value = _bytes_of("value", message.value, message.value_base64, media)
    if message.tombstone:
        if value is not None:
            raise InvalidRequest(problem="a tombstone has no value")
        return None
    if value is None:
        raise InvalidRequest(problem="a message needs value, value_base64 or tombstone: true")
    return value


def _bytes_of(name: str, given: msgspec.Raw, base64: str | None, media: Media) -> bytes | None:
    try:
        text = media.text_of(given) if given is not _ABSENT else None
    except (UnicodeError, msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(problem=f"{name} is not valid {media.label}: {error}") from None
    if base64 is None:
        return text
    if text is not None:
        raise InvalidRequest(problem=f"give {name} or {name}_base64, not both")
    return _from_base64(f"{name}_base64", base64)


def _headers(message: MessageToPublish) -> dict[str, bytes]:
    headers = {name: text.encode() for name, text in (message.headers or {}).items() if text is not None}
    for name, base64 in (message.headers_base64 or {}).items():
        if base64 is not None:
            headers[name] = _from_base64(f"header {name!r}", base64)
    return headers


def _from_base64(what: str, text: str) -> bytes:
    try:
        return binascii.a2b_base64(text.encode("ascii"), strict_mode=True)
    except (ValueError, UnicodeError) as error:
        raise InvalidRequest(problem=f"{what} is not base64: {error}") from None


def _result(message: NewMessage | QuiverError, outcome: Any) -> PublishResult:
    if isinstance(outcome, QuiverError):
        return PublishResult(
            partition=None,
            offset=None,
            error=outcome.message,
            code=outcome.code,
            retryable=outcome.retryable,
            status=outcome.status,
        )
    result = PublishResult(partition=outcome.partition, offset=outcome.offset)
    if isinstance(message, NewMessage) and message.priority is not Priority.NORMAL:
        result.priority = message.priority.name.lower()
    if outcome.duplicate:
        result.duplicate = True
    return result


def _answer(results: list[PublishResult], outcomes: list[Any]) -> Answer:
    """200, unless the broker could take none of it for one reason that may pass: then that error with the results."""
    first = outcomes[0] if outcomes else None
    if isinstance(first, QuiverError) and first.retryable:
        if all(isinstance(outcome, QuiverError) and outcome.code == first.code for outcome in outcomes):
            answer = error_answer(first)
            answer.body = {**answer.body, "results": results}
            return answer
    return Answer(PublishAnswer(results))
