"""GET /topics/{topic}/tail: messages as they are committed, a line of JSON each."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from quiver.gateways.http.media import NDJSON
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.messages.message import MessageResponse, message_response
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    Overloaded,
    PartitionNotFound,
    QuiverError,
    TopicNotFound,
)
from quiver.model.times import format_time
from quiver.search.language.expression import Expression
from quiver.search.tail import TailPart, TailRequest

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_HIGHEST_RATE = 10_000
_PIECE_BYTES = 64 * 1024


class TailQuery(msgspec.Struct, kw_only=True):
    where: Annotated[str, Meta(description="Only messages that fit this expression (docs/search.md).")] | None = None
    rate: Annotated[int, Meta(ge=1, le=_HIGHEST_RATE, description="The most messages per second.")] = 100
    partition: Annotated[int, Meta(ge=0, description="All, when it is left out.")] | None = None


class TailLine(MessageResponse, kw_only=True):
    """A line is a message, or has one of `dropped`, `heartbeat` and `error`, and nothing else."""

    dropped: Annotated[
        int | UnsetType, Meta(description="Messages left out: more came than `rate`, or than the client reads.")
    ] = UNSET
    heartbeat: Annotated[str | UnsetType, Meta(description="The time, when nothing came for five seconds.")] = UNSET
    error: Annotated[str | UnsetType, Meta(description="Why the stream ends here.")] = UNSET
    code: str | UnsetType = UNSET


class TailRoute:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def tail(self, request: Request) -> Response | StreamedResponse:
        topic, query = request.topic(), request.query(TailQuery)
        where = None if query.where is None else Expression(query.where)
        parts = await self._broker.tails.follow(TailRequest(topic, where, query.rate, query.partition))
        request.waits = True
        return StreamedResponse(self._lines(parts), NDJSON, is_live=True)

    async def _lines(self, parts: AsyncGenerator[TailPart, None]) -> AsyncGenerator[bytes, None]:
        async with aclosing(parts):
            try:
                async for part in parts:
                    if not part.messages and not part.dropped:
                        yield self._heartbeat()
                    for piece in _pieces(part):
                        yield piece
            except QuiverError as error:
                yield _line({"error": error.message, "code": error.code})

    def _heartbeat(self) -> bytes:
        return _line({"heartbeat": format_time(self._broker.clock.now_ms())})


def _pieces(part: TailPart) -> list[bytes]:
    """Lines, many in one piece; what was dropped comes first, because it is older."""
    pieces: list[bytes] = []
    held = bytearray(_line({"dropped": part.dropped}) if part.dropped else b"")
    for message in part.messages:
        held += _line(message_response(message))
        if len(held) >= _PIECE_BYTES:
            pieces.append(bytes(held))
            held.clear()
    return [*pieces, bytes(held)] if held else pieces


def _line(content: Any) -> bytes:
    return NDJSON.encode(content)


def tail_routes(broker: "Facade") -> Routes:
    return {
        "/topics/{topic}/tail": {
            "GET": Operation(
                handler=TailRoute(broker).tail,
                summary="Messages as they are committed, a line of JSON each, without an end",
                tag="Search",
                query=TailQuery,
                response=TailLine,
                errors=(InvalidRequest, InvalidName, TopicNotFound, PartitionNotFound, Overloaded),
            )
        }
    }
