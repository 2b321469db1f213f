"""GET messages of a partition, from an offset or a time. Large pages are encoded while they are sent."""

import struct
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from quiver.gateways.http.answer import Answer, StreamedAnswer
from quiver.gateways.http.media import JSON, Media
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.routes.message import MessageAnswer, message_answer
from quiver.model.errors import CorruptData, InvalidName, InvalidRequest, PartitionNotFound, TopicNotFound
from quiver.model.message import StoredMessage
from quiver.model.times import parse_time_ms

if TYPE_CHECKING:
    from quiver.broker.broker import Broker
    from quiver.broker.browse import MessagePage

MAX_LIMIT = 10_000
_PIECE_MESSAGES = 500
_PIECE_BYTES = 256 * 1024


class ReadQuery(msgspec.Struct, kw_only=True):
    offset: Annotated[int, Meta(ge=0, description="Below the earliest it starts at the earliest.")] | None = None
    limit: Annotated[int, Meta(ge=1, description="At most 10,000; a larger one counts as that.")] = 100
    from_time: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds, by append time.")] = None
    to_time: Annotated[str | None, Meta(description="RFC 3339 or epoch milliseconds, inclusive.")] = None
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    include_expired: Annotated[bool, Meta(description="Also messages that are past their time to live.")] = False


class TopicReadQuery(ReadQuery, kw_only=True):
    partition: Annotated[int, Meta(ge=0, description="May be left out where there is only one.")] | None = None


class PageAnswer(msgspec.Struct):
    """A page may hold fewer messages than asked for, or none; go on at next_offset."""

    messages: list[MessageAnswer]
    next_offset: int
    expired: Annotated[int, Meta(description="Messages left out because their time to live was over.")] = 0


class ReadRoute:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    async def of_partition(self, request: Request) -> Answer | StreamedAnswer:
        return await self._read(request, request.topic(), request.partition(), request.query(ReadQuery))

    async def of_topic(self, request: Request) -> Answer | StreamedAnswer:
        topic, query = request.topic(), request.query(TopicReadQuery)
        partition = query.partition
        if partition is None:
            count = self._broker.topic(topic).config.partitions
            if count > 1:
                raise InvalidRequest(problem=f"say which partition to read: ?partition=0 to {count - 1}")
            partition = 0
        return await self._read(request, topic, partition, query)

    async def _read(self, request: Request, topic: str, partition: int, query: ReadQuery) -> Answer | StreamedAnswer:
        page = await self._broker.read_messages(
            topic,
            partition,
            offset=query.offset,
            limit=min(query.limit, MAX_LIMIT),
            from_time_ms=None if query.from_time is None else parse_time_ms(query.from_time, "from_time"),
            to_time_ms=None if query.to_time is None else parse_time_ms(query.to_time, "to_time"),
            read_committed=query.isolation == "read_committed",
            include_expired=query.include_expired,
            hold=request.hold,
        )
        size = sum(_size(message) for message in page.messages)
        if size <= _PIECE_BYTES and len(page.messages) <= _PIECE_MESSAGES:
            messages = [message_answer(message) for message in page.messages]
            return Answer(PageAnswer(messages, page.next_offset, page.expired_count))
        media = request.answer_media
        write = _json_page if media is JSON else _packed_page
        return StreamedAnswer(write(media, page), media)


def read_routes(broker: "Broker") -> Routes:
    route = ReadRoute(broker)
    errors = (InvalidRequest, InvalidName, TopicNotFound, PartitionNotFound, CorruptData)
    return {
        "/topics/{topic}/messages": {
            "GET": Operation(
                handler=route.of_topic,
                summary="Read messages of one partition",
                tag="Messages",
                query=TopicReadQuery,
                answer=PageAnswer,
                errors=errors,
            )
        },
        "/topics/{topic}/partitions/{partition}/messages": {
            "GET": Operation(
                handler=route.of_partition,
                summary="Read messages of one partition",
                tag="Messages",
                query=ReadQuery,
                answer=PageAnswer,
                errors=errors,
            )
        },
    }


def _size(message: StoredMessage) -> int:
    size = len(message.value or b"") + len(message.key or b"")
    return size + sum(map(len, message.headers.values())) if message.headers else size


def _pieces(messages: list[StoredMessage]) -> Iterator[list[MessageAnswer]]:
    """Runs of messages that are encoded together, small enough not to hold the event loop."""
    run: list[MessageAnswer] = []
    size = 0
    for message in messages:
        run.append(message_answer(message))
        size += _size(message)
        if len(run) >= _PIECE_MESSAGES or size >= _PIECE_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


async def _json_page(media: Media, page: "MessagePage") -> AsyncIterator[bytes]:
    before = b'{"messages":['
    for run in _pieces(page.messages):
        yield before + media.encode(run)[1:-1]
        before = b","
    yield b'],"next_offset":%d,"expired":%d}' % (page.next_offset, page.expired_count)


async def _packed_page(media: Media, page: "MessagePage") -> AsyncIterator[bytes]:
    """A map of three entries; MessagePack writes the length of the array in front of it."""
    yield b"\x83" + media.encode("messages") + b"\xdd" + struct.pack(">I", len(page.messages))
    for run in _pieces(page.messages):
        yield b"".join(map(media.encode, run))
    yield media.encode("next_offset") + media.encode(page.next_offset)
    yield media.encode("expired") + media.encode(page.expired_count)
