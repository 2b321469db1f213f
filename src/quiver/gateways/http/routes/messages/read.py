"""GET messages of a partition, or of all, from an offset or a time. Large pages are encoded while they are sent."""

import struct
from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.messages.message import MessageResponse, message_response
from quiver.messages.browse import BrowseRequest, MessagePage
from quiver.messages.browse_all import read_all
from quiver.model.errors import CorruptData, InvalidName, InvalidRequest, PartitionNotFound, TopicNotFound
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.message import StoredMessage
from quiver.model.numbers import shown, whole_number
from quiver.model.times import parse_time_ms

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_PIECE_MESSAGES = 500
_PIECE_BYTES = 256 * 1024
_MOST_PARTITIONS = 1000
"""How many partitions are read at the same time."""


class ReadQuery(msgspec.Struct, kw_only=True):
    offset: Annotated[int, Meta(ge=0, description="Below the earliest it starts at the earliest.")] | None = None
    limit: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] = 100
    from_time: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds, by append time.")] = None
    to_time: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds, inclusive.")] = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    include_expired: Annotated[bool, Meta(description="Also messages that are past their time to live.")] = False
    max_value_bytes: (
        Annotated[int, Meta(ge=1, description="Longer values are cut to this; value_bytes says how long they are.")]
        | None
    ) = None


class TopicReadQuery(ReadQuery, kw_only=True):
    partition: Annotated[int, Meta(ge=0, description="All, when it is left out.")] | None = None
    after: Annotated[str, Meta(description="Without a partition: what the page before gave as `next`.")] | None = None


class PageResponse(msgspec.Struct):
    """A page may hold fewer messages than asked for, or none; go on at next_offset."""

    messages: list[MessageResponse]
    next_offset: int
    expired: Annotated[int, Meta(description="Messages left out because their time to live was over.")] = 0


class TopicPageResponse(msgspec.Struct, kw_only=True):
    """Messages of all partitions are in the order in which they were appended. A page may hold fewer messages than
    asked for, or none; go on with `next` as `after`, or, in one partition, at next_offset."""

    messages: list[MessageResponse]
    next_offset: Annotated[int | UnsetType, Meta(description="Where one partition was read.")] = UNSET
    next: Annotated[str | UnsetType, Meta(description="Where no partition was named.")] = UNSET
    expired: Annotated[int, Meta(description="Messages left out because their time to live was over.")] = 0


class ReadRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def of_partition(self, request: Request) -> Response | StreamedResponse:
        return await self._read(request, request.topic(), request.partition(), request.query(ReadQuery))

    async def of_topic(self, request: Request) -> Response | StreamedResponse:
        topic, query = request.topic(), request.query(TopicReadQuery)
        if query.partition is None:
            return await self._read_all(request, topic, query)
        if query.after is not None:
            raise InvalidRequest(problem="`after` is for all partitions: leave out `partition`, or send `offset`")
        return await self._read(request, topic, query.partition, query)

    async def _read(
        self, request: Request, topic: str, partition: int, query: ReadQuery
    ) -> Response | StreamedResponse:
        asked = _asked(query, request)._replace(offset=query.offset, limit=_limit(query))
        page = await self._broker.read_messages(topic, partition, asked)
        tail = {"next_offset": page.next_offset, "expired": page.expired_count}
        return messages_response(request, page.messages, tail, query.max_value_bytes)

    async def _read_all(self, request: Request, topic: str, query: TopicReadQuery) -> Response | StreamedResponse:
        asked, count = _asked(query, request), self._broker.topic(topic).config.partitions
        if count > _MOST_PARTITIONS:
            raise InvalidRequest(problem=f"say which partition to read: ?partition=0 to {count - 1}")
        if query.offset is not None and count > 1:
            raise InvalidRequest(problem="an offset is one of a partition: send `partition` too, or `from_time`")
        offsets = [query.offset or 0] if query.after is None and count == 1 else _offsets(query.after, count)

        async def read(number: int, offset: int, limit: int, max_bytes: int) -> MessagePage:
            part = asked._replace(offset=offset, limit=limit, max_bytes=max_bytes)
            return await self._broker.read_messages(topic, number, part)

        page = await read_all(read, offsets, _limit(query))
        tail: dict[str, Any] = {"next": ".".join(map(str, page.next_offsets)), "expired": page.expired_count}
        if count == 1:
            tail["next_offset"] = page.next_offsets[0]
        return messages_response(request, page.messages, tail, query.max_value_bytes)


def _limit(query: ReadQuery) -> int:
    return min(query.limit, MESSAGES_AT_ONCE)


def _asked(query: ReadQuery, request: Request) -> BrowseRequest:
    return BrowseRequest(
        from_time_ms=None if query.from_time is None else parse_time_ms(query.from_time, "from_time"),
        to_time_ms=None if query.to_time is None else parse_time_ms(query.to_time, "to_time"),
        read_committed=query.isolation == "read_committed",
        include_expired=query.include_expired,
        hold=request.hold,
    )


def _offsets(after: str | None, count: int) -> list[int]:
    """Where each partition continues; one that was added since starts at its earliest offset."""
    found = [] if after is None else [whole_number(text) for text in after.split(".")[: count + 1]]
    known = [number for number in found if number is not None]
    if len(known) != len(found) or len(known) > count:
        raise InvalidRequest(problem=f"after: {shown(after)} is not what a page of this topic gave as `next`")
    return known + [0] * (count - len(known))


def messages_response(
    request: Request, messages: list[StoredMessage], tail: dict[str, Any], max_value_bytes: int | None = None
) -> Response | StreamedResponse:
    """The messages and then `tail`; many of them are encoded while they are sent."""
    size = sum(_size(message) for message in messages)
    if size <= _PIECE_BYTES and len(messages) <= _PIECE_MESSAGES:
        return Response({"messages": [message_response(each, max_value_bytes) for each in messages], **tail})
    media, pieces = request.response_media, _pieces(messages, max_value_bytes)
    written = _json_page(media, pieces, tail) if media is JSON else _packed_page(media, len(messages), pieces, tail)
    return StreamedResponse(written, media)


def read_routes(broker: "Facade") -> Routes:
    route = ReadRoute(broker)
    errors = (InvalidRequest, InvalidName, TopicNotFound, PartitionNotFound, CorruptData)
    return {
        "/topics/{topic}/messages": {
            "GET": Operation(
                handler=route.of_topic,
                summary="Read messages of one partition, or of all",
                tag="Messages",
                query=TopicReadQuery,
                response=TopicPageResponse,
                errors=errors,
            )
        },
        "/topics/{topic}/partitions/{partition}/messages": {
            "GET": Operation(
                handler=route.of_partition,
                summary="Read messages of one partition",
                tag="Messages",
                query=ReadQuery,
                response=PageResponse,
                errors=errors,
            )
        },
    }


def _size(message: StoredMessage) -> int:
    size = len(message.value or b"") + len(message.key or b"")
    return size + sum(map(len, message.headers.values())) if message.headers else size


def _pieces(messages: list[StoredMessage], max_value_bytes: int | None) -> Iterator[list[MessageResponse]]:
    """Runs of messages that are encoded together, small enough not to hold the event loop."""
    run: list[MessageResponse] = []
    size = 0
    for message in messages:
        run.append(message_response(message, max_value_bytes))
        size += _size(message)
        if len(run) >= _PIECE_MESSAGES or size >= _PIECE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


async def _json_page(
    media: Media, pieces: Iterator[list[MessageResponse]], tail: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    before = b'{"messages":['
    for run in pieces:
        yield before + media.encode(run)[1:-1]
        before = b","
    yield b"]," + media.encode(tail)[1:]


async def _packed_page(
    media: Media, count: int, pieces: Iterator[list[MessageResponse]], tail: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    """MessagePack writes the length of a map and of an array in front of it."""
    head = b"\xde" + struct.pack(">H", 1 + len(tail)) + media.encode("messages")
    yield head + b"\xdd" + struct.pack(">I", count)
    for run in pieces:
        yield b"".join(map(media.encode, run))
    for name, value in tail.items():
        yield media.encode(name) + media.encode(value)
