"""Where a reader starts and ends, and how much it fetches at once."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import msgspec

from quiver.client.read.isolation import READ_COMMITTED, is_committed
from quiver.client.read.nearest import LEADER, is_nearest
from quiver.client.size_option import size_option
from quiver.model.errors import InvalidRequest
from quiver.model.limits import KIB, MIB, Limits
from quiver.model.numbers import Size
from quiver.model.position import EARLIEST, Position, parse_position
from quiver.model.times import Duration, parse_duration_ms, parse_seconds

Place = Position | Mapping[int, Position]


class FetcherConfig(NamedTuple):
    max_bytes: int
    max_wait_ms: int
    skips_missing: bool = False
    """A deleted topic is no longer read; otherwise it is an error."""
    read_committed: bool = True
    """The reader waits for open transactions and leaves out aborted ones."""
    include_expired: bool = False
    """Otherwise expired messages are left out when frames are opened."""
    nearest: bool = False
    """A node of a cluster may read its own replica."""


class ReaderConfig(msgspec.Struct, frozen=True, kw_only=True):
    start: Place = EARLIEST
    end: Place | None = None
    partitions: list[int] | None = None
    max_bytes: int = 8 * MIB
    max_wait_ms: int = 500
    read_committed: bool = True
    include_expired: bool = False
    nearest: bool = False
    timeout_seconds: float | None = None
    """The longest wait for the next message."""
    limits: Limits = Limits()

    @property
    def follows_growth(self) -> bool:
        return self.partitions is None and self.end is None and isinstance(self.start, Position)


class ReadOptions(TypedDict, total=False):
    """The options as users write them."""

    max_bytes: Size
    max_wait: Duration
    isolation: str
    include_expired: bool
    read_from: str
    timeout: Duration | None


def reader_config(
    start: Any = "earliest",
    end: Any = None,
    partitions: Sequence[int] | int | None = None,
    *,
    now_ms: int,
    max_bytes: Size = 8 * MIB,
    max_wait: Duration = "500ms",
    isolation: str = READ_COMMITTED,
    include_expired: bool = False,
    read_from: str = LEADER,
    timeout: Duration | None = None,
) -> ReaderConfig:
    """Checks the options of a user. `start` and `end` may also be a mapping of partition to such a value."""
    chosen = _partitions(partitions)
    if chosen is None and isinstance(start, Mapping):
        chosen = sorted(start)
    return ReaderConfig(
        start=_place(start, now_ms, "start"),
        end=None if end is None else _place(end, now_ms, "end"),
        partitions=chosen,
        max_bytes=size_option("max_bytes", max_bytes, KIB, 64 * MIB),
        max_wait_ms=parse_duration_ms(max_wait, "max_wait"),
        read_committed=is_committed(isolation),
        include_expired=include_expired,
        nearest=is_nearest(read_from),
        timeout_seconds=None if timeout is None else parse_seconds(timeout),
    )


def _place(value: Any, now_ms: int, what: str) -> Place:
    if isinstance(value, Mapping):
        return {number: parse_position(place, now_ms, what) for number, place in value.items()}
    return parse_position(value, now_ms, what)


def _partitions(value: Sequence[int] | int | None) -> list[int] | None:
    if value is None:
        return None
    numbers = [value] if isinstance(value, int) else list(value)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidRequest(problem=f"partition {number!r} must be a whole number, 0 or more")
    return list(dict.fromkeys(numbers))
