"""What requests about searches ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.limits import LONGEST_WAIT_MS
from quiver.protocol.message import Message
from quiver.protocol.search_messages import BeginSearch, CancelSearch, FoundRow, GetSearch, SearchProgress
from quiver.routing.facade import Facade
from quiver.search.job import Progress
from quiver.search.language.expression import Expression
from quiver.search.request import Bounds, SearchRequest, parse_cursor


async def _begin(broker: Facade, request: BeginSearch) -> Message:
    bounds = Bounds(
        limit=request.limit,
        max_messages=request.max_messages,
        max_bytes=request.max_bytes,
        max_seconds=request.max_seconds,
    )
    search = SearchRequest(
        where=Expression(request.where),
        start=request.start,
        end=request.end,
        partitions=None if request.partitions is None else tuple(request.partitions),
        newest_first=request.newest_first,
        include_expired=request.include_expired,
        bounds=bounds.check(),
        cursor=None if request.cursor is None else parse_cursor(request.cursor, newest_first=request.newest_first),
    )
    return _response(await broker.searches.begin(request.topic, search))


async def _get(broker: Facade, request: GetSearch) -> Message:
    wait_seconds = min(max(0, request.wait_ms), LONGEST_WAIT_MS) / 1000
    return _response(
        await broker.searches.progress(request.id, after=max(0, request.after), wait_seconds=wait_seconds)
    )


async def _cancel(broker: Facade, request: CancelSearch) -> Message:
    return _response((await broker.searches.cancel(request.id))._replace(messages=[]))


def _response(progress: Progress) -> SearchProgress:
    return SearchProgress(
        id=progress.id,
        state=progress.state,
        scanned=progress.scanned,
        total=progress.total,
        scanned_messages=progress.scanned_messages,
        scanned_bytes=progress.scanned_bytes,
        matched=progress.matched,
        messages=[
            FoundRow(
                found.partition,
                found.offset,
                found.timestamp_ms,
                found.append_time_ms,
                found.key,
                found.value,
                found.headers,
                found.priority,
            )
            for found in progress.messages
        ],
        cursor=progress.cursor,
        stopped_by=progress.stopped_by,
        error=progress.error,
        seconds=progress.seconds,
    )


SEARCH_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    BeginSearch: _begin,
    GetSearch: _get,
    CancelSearch: _cancel,
}
