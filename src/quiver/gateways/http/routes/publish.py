"""POST /topics/{topic}/messages: single messages into the log, on the same path as everybody's frames."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from quiver.gateways.http.answer import Answer, error_answer
from quiver.gateways.http.media import Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.incoming import MessageToPublish, new_message
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
from quiver.model.priority import Priority

if TYPE_CHECKING:
    from quiver.broker.broker import Broker

_SLICED_BODY_BYTES = 256 * 1024
"""A larger body is decoded and converted in slices, so that it does not hold the event loop."""
_SLICE = 500
_PUBLISHED_AT_ONCE = 5_000


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
        example={"messages": [{"key": "customer-7", "value": {"id": 1}}]},
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
    if not isinstance(first, QuiverError) or not first.retryable:
        return Answer(PublishAnswer(results))
    if any(not isinstance(outcome, QuiverError) or outcome.code != first.code for outcome in outcomes):
        return Answer(PublishAnswer(results))
    answer = error_answer(first)
    answer.body = {**answer.body, "results": results}
    return answer
