"""Search jobs: begin, ask, cancel."""

from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import unquote

import msgspec
from msgspec import Meta

from quiver.gateways.http.field_notes import DURATION, needed, note
from quiver.gateways.http.operation import Operation, Routes
from quiver.gateways.http.request import Request
from quiver.gateways.http.response import Response, StreamedResponse
from quiver.gateways.http.routes.messages.message import MessageResponse, shown_time
from quiver.gateways.http.routes.messages.read import messages_response
from quiver.model.errors import (
    InvalidName,
    InvalidRequest,
    Overloaded,
    PartitionNotFound,
    SearchNotFound,
    TopicNotFound,
)
from quiver.model.limits import LONGEST_WAIT_MS
from quiver.model.position import EARLIEST, LATEST, Position, parse_position
from quiver.model.times import parse_duration_ms
from quiver.search.job import Progress
from quiver.search.language.expression import Expression
from quiver.search.language.syntax import MAX_CHARACTERS
from quiver.search.request import DEFAULT_LIMIT, DEFAULT_SECONDS, Bounds, SearchRequest, parse_cursor

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

_POSITION = "earliest, latest, an offset, a time ago such as -2h, or a time"


class SearchBody(msgspec.Struct, kw_only=True):
    where: Annotated[
        str | None,
        needed("An expression (docs/search.md).", maxLength=MAX_CHARACTERS, examples=["value.total > 300"]),
    ] = None
    start: Annotated[str | int | None, note(f"Where it begins: {_POSITION}. By default earliest.", minimum=0)] = (
        msgspec.field(default=None, name="from")
    )
    end: Annotated[
        str | int | None, note(f"Where it ends, not included: {_POSITION}. By default latest.", minimum=0)
    ] = msgspec.field(default=None, name="to")
    partitions: Annotated[list[int] | None, Meta(description="By default all.")] = None
    newest_first: Annotated[bool | None, Meta(description="True unless it says otherwise.")] = None
    include_expired: Annotated[bool | None, Meta(description="Also messages past their time to live.")] = None
    limit: Annotated[
        int | None, note(f"Messages to find, at most 10,000; {DEFAULT_LIMIT} by default.", minimum=1)
    ] = None
    max_messages: Annotated[int | None, note("It stops after it has looked at this many.", minimum=1)] = None
    max_bytes: Annotated[int | None, note("It stops after it has read this much.", minimum=1)] = None
    max_seconds: Annotated[
        float | None, note(f"It stops after this time; {DEFAULT_SECONDS:g} by default, at most an hour.", minimum=0)
    ] = None
    cursor: Annotated[
        str | None, Meta(description="Where a search with the same fields stopped: this one goes on there.")
    ] = None

    def request(self, now_ms: int) -> SearchRequest:
        newest_first = self.newest_first is not False
        given = {name: getattr(self, name) for name in ("limit", "max_messages", "max_bytes", "max_seconds")}
        return SearchRequest(
            where=Expression(self.where or ""),
            start=_position(self.start, "from", now_ms, EARLIEST),
            end=_position(self.end, "to", now_ms, LATEST),
            partitions=None if self.partitions is None else tuple(self.partitions),
            newest_first=newest_first,
            include_expired=bool(self.include_expired),
            bounds=Bounds(**{name: value for name, value in given.items() if value is not None}).check(),
            cursor=None if self.cursor is None else parse_cursor(self.cursor, newest_first=newest_first),
        )


class ProgressQuery(msgspec.Struct, kw_only=True):
    after: Annotated[int, Meta(ge=0, description="How many of its messages are known already.")] = 0
    wait: Annotated[str, note("How long to wait for more messages or the end; at most 5m.", **DURATION)] | None = None


class SearchResponse(msgspec.Struct, kw_only=True):
    """A search as it is now. It goes on by itself until it has looked at everything or a bound stops it, as long as
    somebody asks for it at least every 30 seconds; a minute after its end it is forgotten."""

    id: str
    topic: str
    where: str
    state: Literal["running", "done", "cancelled", "failed"]
    scanned: Annotated[int, Meta(description="How many offsets it has looked at, of `total`.")]
    total: int
    scanned_messages: int
    scanned_bytes: int
    matched: Annotated[int, Meta(description="How many messages it has found.")]
    messages: Annotated[list[MessageResponse], Meta(description="What it has found, from `after` on, in order.")]
    cursor: Annotated[str | None, Meta(description="After the end: where to go on, if there is more to look at.")]
    stopped_by: Annotated[
        str | None, Meta(description="limit, max_messages, max_bytes, max_seconds or result_bytes (16 MiB).")
    ]
    error: str | None
    started_at: str
    seconds: float


class SearchRoutes:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    async def begin(self, request: Request) -> Response | StreamedResponse:
        topic, body = request.topic(), await request.body(SearchBody)
        search = body.request(self._broker.clock.now_ms())
        return _shown(request, await self._broker.searches.begin(topic, search))

    async def progress(self, request: Request) -> Response | StreamedResponse:
        query = request.query(ProgressQuery)
        wait_ms = 0 if query.wait is None else min(parse_duration_ms(query.wait, "wait"), LONGEST_WAIT_MS)
        request.waits = wait_ms > 0
        asked = self._broker.searches.progress(_id(request), after=query.after, wait_seconds=wait_ms / 1000)
        progress = await request.while_connected(asked)
        request.hold(sum(len(message.value or b"") for message in progress.messages))
        return messages_response(request, progress.messages, _tail(progress))

    async def cancel(self, request: Request) -> Response | StreamedResponse:
        return _shown(request, await self._broker.searches.cancel(_id(request)))


def _shown(request: Request, progress: Progress) -> Response:
    """Without messages: `GET` has them."""
    return Response({"messages": [], **_tail(progress)})


def _tail(progress: Progress) -> dict[str, Any]:
    return {
        "id": progress.id,
        "topic": progress.topic,
        "where": progress.where,
        "state": progress.state,
        "scanned": progress.scanned,
        "total": progress.total,
        "scanned_messages": progress.scanned_messages,
        "scanned_bytes": progress.scanned_bytes,
        "matched": progress.matched,
        "cursor": progress.cursor,
        "stopped_by": progress.stopped_by,
        "error": progress.error,
        "started_at": shown_time(progress.started_at_ms),
        "seconds": round(progress.seconds, 3),
    }


def _id(request: Request) -> str:
    return unquote(request.params["search"])[:100]


def _position(given: str | int | None, what: str, now_ms: int, otherwise: Position) -> Position:
    return otherwise if given is None else parse_position(given, now_ms, what)


def search_routes(broker: "Facade") -> Routes:
    routes = SearchRoutes(broker)

    def operation(*errors: Any, **more: Any) -> Operation:
        return Operation(tag="Search", response=SearchResponse, errors=errors, **more)

    return {
        "/topics/{topic}/search": {
            "POST": operation(
                InvalidRequest,
                InvalidName,
                TopicNotFound,
                PartitionNotFound,
                Overloaded,
                handler=routes.begin,
                summary="Begin a search for messages that fit an expression, the newest first",
                body=SearchBody,
                example={"where": 'value.total > 300 and "c-1" in key', "from": "-1d", "limit": 100},
            )
        },
        "/search/{search}": {
            "GET": operation(
                InvalidRequest,
                SearchNotFound,
                handler=routes.progress,
                summary="The progress of a search and what it has found; can wait for more",
                query=ProgressQuery,
            ),
            "DELETE": operation(SearchNotFound, handler=routes.cancel, summary="Cancel a search"),
        },
    }
