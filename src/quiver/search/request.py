"""What to search for, where and how far. Values only."""

from typing import Literal, NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.limits import MESSAGES_AT_ONCE
from quiver.model.numbers import shown, whole_number
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.search.language.expression import Expression

DEFAULT_LIMIT = 100
DEFAULT_SECONDS = 60.0
LONGEST_SECONDS = 3600.0

StoppedBy = Literal["limit", "max_messages", "max_bytes", "max_seconds", "result_bytes"]
State = Literal["running", "done", "cancelled", "failed"]


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search stops although there is more; its cursor says where to go on."""

    limit: int = DEFAULT_LIMIT
    """Messages that fit."""
    max_messages: int | None = None
    """Messages that are looked at."""
    max_bytes: int | None = None
    """Bytes that are looked at, as they are stored."""
    max_seconds: float = DEFAULT_SECONDS

    def check(self) -> "Bounds":
        if not 1 <= self.limit <= MESSAGES_AT_ONCE:
            raise InvalidRequest(problem=f"limit {self.limit} is not from 1 to {MESSAGES_AT_ONCE:,}")
        for name in ("max_messages", "max_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidRequest(problem=f"{name} {value} is not 1 or more")
        if not 0 < self.max_seconds <= LONGEST_SECONDS:
            raise InvalidRequest(problem=f"max_seconds {self.max_seconds:g} is not from 0 to {LONGEST_SECONDS:g}")
        return self


class SearchRequest(NamedTuple):
    where: Expression
    start: Position = EARLIEST
    end: Position = LATEST
    """Not included."""
    partitions: tuple[int, ...] | None = None
    """None: all."""
    newest_first: bool = True
    include_expired: bool = False
    bounds: Bounds = Bounds()
    cursor: "SearchCursor | None" = None


class SearchCursor(NamedTuple):
    """Where a search goes on, by partition. Users get it as text and send it back with the same request."""

    newest_first: bool
    offsets: dict[int, int]

    def __str__(self) -> str:
        places = ",".join(f"{partition}:{offset}" for partition, offset in sorted(self.offsets.items()))
        return f"{'newest' if self.newest_first else 'oldest'};{places}"


def parse_cursor(text: object, *, newest_first: bool) -> SearchCursor:
    problem = f"cursor: {shown(text)} is not the cursor of a search in this direction"
    if not isinstance(text, str):
        raise InvalidRequest(problem=problem)
    direction, _, places = text.partition(";")
    offsets: dict[int, int] = {}
    for place in filter(None, places.split(",")):
        partition, _, offset = place.partition(":")
        numbers = whole_number(partition), whole_number(offset)
        if numbers[0] is None or numbers[1] is None:
            raise InvalidRequest(problem=problem)
        offsets[numbers[0]] = numbers[1]
    if direction != ("newest" if newest_first else "oldest"):
        raise InvalidRequest(problem=problem)
    return SearchCursor(newest_first, offsets)
