"""How far a search goes, as users say it."""

from collections.abc import Sequence
from typing import Any, TypedDict

from quiver.model.names import check_name
from quiver.model.position import parse_position
from quiver.model.times import Duration, parse_seconds
from quiver.protocol.search_messages import BeginSearch


class SearchOptions(TypedDict, total=False):
    start: Any
    end: Any
    partitions: Sequence[int] | int | None
    newest_first: bool
    include_expired: bool
    limit: int
    max_messages: int | None
    max_bytes: int | None
    max_time: Duration
    cursor: str | None


def search_request(topic: str, where: str, options: SearchOptions, now_ms: int) -> BeginSearch:
    partitions = options.get("partitions")
    numbers = [partitions] if isinstance(partitions, int) else partitions
    return BeginSearch(
        check_name(topic),
        where,
        start=parse_position(options.get("start", "earliest"), now_ms, "start"),
        end=parse_position(options.get("end", "latest"), now_ms, "end"),
        partitions=None if numbers is None else list(numbers),
        newest_first=options.get("newest_first", True),
        include_expired=options.get("include_expired", False),
        limit=options.get("limit", 100),
        max_messages=options.get("max_messages"),
        max_bytes=options.get("max_bytes"),
        max_seconds=parse_seconds(options.get("max_time", 60), "max_time"),
        cursor=options.get("cursor"),
    )
