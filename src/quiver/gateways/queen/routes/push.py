"""POST /api/v1/push and /api/v1/push/binary: messages for any number of queues."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.field_notes import needed
from quiver.gateways.http.media import JSON, MSGPACK, Media
from quiver.gateways.http.operation import Begun, Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response
from quiver.gateways.queen.identifiers import message_id, partition_id
from quiver.gateways.queen.incoming import PushItem, for_queue
from quiver.gateways.queen.maintenance.buffer import PushBuffer
from quiver.gateways.queen.maintenance.modes import Modes
from quiver.gateways.queen.messages import TRANSACTION_HEADER, own_id
from quiver.gateways.queen.queue_limit import full_queue, has_limit
from quiver.gateways.queen.queues import QueenQueues
from quiver.model.errors import InvalidName, InvalidRequest, QuiverError, RequestTooLarge
from quiver.model.limits import PUBLISHED_AT_ONCE
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.system.pace import Pace, bounded_gather

if TYPE_CHECKING:
    from quiver.messages.publish import Published
    from quiver.routing.facade import Facade

T = TypeVar("T")
_SLICED_BODY_BYTES = 256 * 1024
"""The items of a larger body are decoded one by one, so that it does not block the event loop."""


_BEFORE_ID, _BETWEEN_IDS = b'[{"index":0,"transaction_id":"', b'","status":"queued","message_id":"'
_REMEMBERED = 10_000


class PushRequest(msgspec.Struct):
    items: Annotated[list[PushItem] | None, needed(maxItems=PUBLISHED_AT_ONCE)] = None


class _UndecodedItems(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class PushResult(msgspec.Struct, kw_only=True):
    index: int
    transaction_id: str | None
    status: Annotated[
        Literal["queued", "duplicate", "buffered", "failed"],
        Meta(description="Of a duplicate, the ids are those of the first."),
    ]
    message_id: str | None = None
    partition_id: str | None = None
    trace_id: str | None = None
    queue_name: str = msgspec.field(name="queueName")
    error: str | UnsetType = UNSET


class Outcome(NamedTuple):
    topic: Topic
    message: NewMessage
    found: "Published | QuiverError"


class PushRoute:
    def __init__(self, broker: "Facade", queues: QueenQueues, modes: Modes, buffer: PushBuffer) -> None:
        self._broker = broker
        self._queues = queues
        self._modes = modes
        self._buffer = buffer

    def begin(self, request: Request) -> Begun | Response | None:
        """A small request with one item needs no task: it waits for the message and for nothing else."""
        batch = request.body_at_once(PushRequest)
        if batch is None or batch.items is None or len(batch.items) != 1:
            return None
        [item] = batch.items
        message = item.message(request.media)
        topic = self._queues.find_checked(item.queue)
        if topic is None or not self._modes.is_known or self._buffer.is_used or has_limit(topic):
            return None  # that takes time
        message = for_queue(message, topic, self._broker.clock.now_ms())
        begun = self._broker.begin_publish(item.queue, message)
        if isinstance(begun, QuiverError):
            return _response([item], [Outcome(topic, message, begun)])
        media = request.response_media
        return Begun(begun.future, lambda: single_response(item, Outcome(topic, message, begun.outcome()), media))

    async def push(self, request: Request) -> Response:
        batch: PushRequest | None = request.read
        items = await _items(request, request.media) if batch is None else _accepted(batch.items)
        return await self._push(request.media, items)

    async def push_binary(self, request: Request) -> Response:
        return await self._push(MSGPACK, await _items(request, MSGPACK))

    async def _push(self, media: Media, items: Sequence[PushItem]) -> Response:
        """Every item is checked before the first is stored."""
        pace = Pace()
        queues: dict[str, list[tuple[int, NewMessage]]] = {}
        for index, item in enumerate(items):
            queues.setdefault(item.queue, []).append((index, item.message(media)))
            await pace.turn()
        if not self._modes.is_known:
            await self._modes.look()
        if self._buffer.is_used:
            return await self._buffered(items, media)
        outcomes: dict[int, Outcome] = {}

        async def publish(name: str) -> None:
            topic = await self._queues.ensure(name)
            now_ms = self._broker.clock.now_ms()
            messages = [for_queue(message, topic, now_ms) for _, message in queues[name]]
            found: Sequence[Published | QuiverError]
            full = await full_queue(self._broker, topic, len(messages)) if has_limit(topic) else None
            found = [full] * len(messages) if full is not None else await self._broker.publish(name, messages)
            for (index, _), message, one in zip(queues[name], messages, found, strict=True):
                outcomes[index] = Outcome(topic, message, one)

        await bounded_gather(publish, queues)
        return _response(items, [outcomes[index] for index in range(len(items))])

    async def _buffered(self, items: Sequence[PushItem], media: Media) -> Response:
        messages, found = await self._buffer.add(items, [item.message(media) for item in items])
        results = []
        for index, (item, message, one) in enumerate(zip(items, messages, found, strict=True)):
            transaction = (message.headers or {}).get(TRANSACTION_HEADER, b"").decode()
            results.append(
                PushResult(
                    index=index,
                    transaction_id=transaction,
                    status="failed" if isinstance(one, QuiverError) else "buffered",
                    trace_id=item.trace_id or None,
                    queue_name=item.queue,
                    error=one.message if isinstance(one, QuiverError) else UNSET,
                )
            )
        return Response(results, 201)


async def _items(request: Request, media: Media) -> list[PushItem]:
    content = await request.content()
    if len(content) <= _SLICED_BODY_BYTES:
        return _accepted(media.decode(content, PushRequest).items if content else None)
    await asyncio.sleep(0)
    found: list[PushItem] = []
    pace = Pace()
    for raw in _accepted(media.decode(content, _UndecodedItems).items):
        found.append(media.decode(raw, PushItem))
        await pace.turn()
    return found


def _accepted(items: list[T] | None) -> list[T]:
    if items is None:
        raise InvalidRequest(problem='the body needs "items": a list of messages')
    if len(items) > PUBLISHED_AT_ONCE:
        raise RequestTooLarge(f"{len(items)} items at once are over the limit of {PUBLISHED_AT_ONCE}; split them")
    return items


def to_result(index: int, item: PushItem, outcome: Outcome) -> PushResult:
    topic, message, found = outcome
    if isinstance(found, QuiverError):
        return PushResult(
            index=index,
            transaction_id=item.transaction_id,
            status="failed",
            trace_id=item.trace_id,
            queue_name=item.queue,
            error=found.message,
        )
    stored_id = own_id(message.headers, topic.id, found.partition, found.offset)
    return PushResult(
        index=index,
        transaction_id=item.transaction_id or stored_id,
        status=_status(found),
        message_id=stored_id,
        partition_id=partition_id(topic.id, item.key),
        trace_id=item.trace_id or None,
        queue_name=item.queue,
    )


def _status(found: "Published") -> Literal["queued", "duplicate", "buffered"]:
    if found.duplicate:
        return "duplicate"
    return "buffered" if found.buffered else "queued"


def single_response(item: PushItem, outcome: Outcome, media: Media) -> Response:
    topic, message, found = outcome
    if isinstance(found, QuiverError):
        return _response([item], [outcome])
    if media is not JSON or message.headers or found.duplicate or found.buffered:
        return Response([to_result(0, item, outcome)], 201)
    id = message_id(topic.id, found.partition, found.offset).encode()
    plain = (_BEFORE_ID, id, _BETWEEN_IDS, id, _after_ids(topic.id, message.key or b"", topic.name))
    return Response(msgspec.Raw(b"".join(plain)), 201)


@lru_cache(maxsize=_REMEMBERED)
def _after_ids(topic_id: int, key: bytes, queue: str) -> bytes:
    """The end of the response to a push of one message that has no id of its own."""
    place = partition_id(topic_id, key)
    queued = PushResult(
        index=0, transaction_id="", status="queued", message_id="", partition_id=place, queue_name=queue
    )
    return JSON.encode([queued])[len(_BEFORE_ID + _BETWEEN_IDS) :]


def _response(items: Sequence[PushItem], outcomes: Sequence[Outcome]) -> Response:
    """201, unless every item was refused for the same passing reason: then that error is raised."""
    first = outcomes[0].found if outcomes else None
    if isinstance(first, QuiverError) and first.retryable and all(_is_like(first, each.found) for each in outcomes):
        raise first
    return Response(list(map(to_result, range(len(items)), items, outcomes)), 201)


def _is_like(error: QuiverError, outcome: "Published | QuiverError") -> bool:
    return isinstance(outcome, QuiverError) and outcome.code == error.code


def push_routes(route: PushRoute) -> Routes:
    errors = (InvalidRequest, InvalidName, RequestTooLarge)
    return {
        "/api/v1/push": {
            "POST": Operation(
                handler=route.push,
                begin=route.begin,
                summary="Push messages; 201 also when some of them fail",
                tag="Queen",
                body=PushRequest,
                example={"items": [{"queue": "orders", "partition": "customer-7", "payload": {"id": 1}}]},
                response=list[PushResult],
                status=201,
                errors=errors,
            )
        },
        "/api/v1/push/binary": {
            "POST": Operation(
                handler=route.push_binary,
                summary="The same, with a body that is MessagePack whatever its content type",
                tag="Queen",
                response=list[PushResult],
                status=201,
                errors=errors,
            )
        },
    }
