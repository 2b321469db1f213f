"""Filters that Spark pushes down to a batch read: what they leave of slices, frames and rows. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.priority import NAMES
from quiver.records.header import FrameHeader
from quiver_spark.columns import MESSAGE_SCHEMA
from quiver_spark.ranges import Slice

Comparison = Literal["=", "in", "<", "<=", ">", ">=", "not null"]
FILTERED = ("topic", "partition", "offset", "timestamp", "append_time", "priority", "key")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERED = frozenset(("partition", "offset", "timestamp", "append_time"))


class Filter(NamedTuple):
    """`column comparison value`; the value of `in` is a tuple. Times are microseconds."""

    column: str
    comparison: Comparison
    value: Any = None

    def allows(self, value: Any) -> bool:
        """Whether one value, which is not null, passes."""
        wanted = self.value
        match self.comparison:
            case "=":
                return bool(value == wanted)
            case "in":
                return value in wanted
            case "<":
                return bool(value < wanted)
            case "<=":
                return bool(value <= wanted)
            case ">":
                return bool(value > wanted)
            case ">=":
                return bool(value >= wanted)
            case _:
                return True

    def may_allow(self, low: int, high: int) -> bool:
        """Whether some number from `low` to `high` passes."""
        match self.comparison:
            case "=":
                return bool(low <= self.value <= high)
            case "in":
                return any(low <= value <= high for value in self.value)
            case "<" | "<=":
                return self.allows(low)
            case ">" | ">=":
                return self.allows(high)
            case _:
                return True

    def mask(self, column: pa.Array) -> pa.Array:
        """Which rows pass; null, which counts as no, where the value is."""
        match self.comparison:
            case "not null":
                return pc.is_valid(column)
            case "in":
                return pc.is_in(column, pa.array(self.value, column.type))
        compare = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
        return compare[self.comparison](column, pa.scalar(self.value, column.type))


class Filters(NamedTuple):
    """All of which a message must pass."""

    each: tuple[Filter, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.each)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple({one.column: None for one in self.each})

    def of(self, column: str) -> list[Filter]:
        return [one for one in self.each if one.column == column]

    def slices(self, slices: Iterable[Slice]) -> list[Slice]:
        """What is left to read."""
        kept = [
            self._narrowed(piece)
            for piece in slices
            if all(one.allows(piece.topic) for one in self.of("topic"))
            and all(one.allows(piece.partition) for one in self.of("partition"))
        ]
        return [piece for piece in kept if piece.offsets]

    def _narrowed(self, piece: Slice) -> Slice:
        start, stop = piece.start, piece.stop
        for one in self.of("offset"):
            low, high = _bounds(one)
            start, stop = max(start, low), min(stop, high)
        size_bytes = piece.size_bytes * max(0, stop - start) // max(1, piece.offsets)
        return piece._replace(start=start, stop=max(start, stop), size_bytes=size_bytes)

    def skips(self, header: FrameHeader) -> bool:
        """Whether no message of a frame can pass."""
        for one in self.each:
            match one.column:
                case "priority" if not one.allows(NAMES[header.priority]):
                    return True
                case "append_time" if not one.allows(header.append_time_ms * 1000):
                    return True
                case "timestamp" if not one.may_allow(header.min_timestamp_ms * 1000, header.max_timestamp_ms * 1000):
                    return True
                case "offset" if not one.may_allow(header.base_offset, header.last_offset):
                    return True
        return False

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that pass."""
        mask: pa.Array | None = None
        for one in self.each:
            passed = one.mask(batch.column(one.column))
            mask = passed if mask is None else pc.and_(mask, passed)
        return batch if mask is None or pc.all(mask, skip_nulls=False).as_py() else batch.filter(mask)


NO_FILTERS = Filters()


def _bounds(one: Filter) -> tuple[int, int]:
    """The numbers from, and below which, a filter passes some."""
    match one.comparison:
        case "=":
            return one.value, one.value + 1
        case "in":
            return (min(one.value), max(one.value) + 1) if one.value else (0, 0)
        case "<":
            return 0, one.value
        case "<=":
            return 0, one.value + 1
        case ">":
            return one.value + 1, 2**63 - 1
        case ">=":
            return one.value, 2**63 - 1
    return 0, 2**63 - 1


def filter_of(column: str, comparison: Comparison, value: Any = None) -> Filter | None:
    """The filter, if the source can do it exactly; None otherwise."""
    if column not in FILTERED:
        return None
    if comparison == "not null":
        return Filter(column, comparison)
    if comparison not in ("=", "in") and column not in _ORDERED:
        return None
    values: Sequence[Any] = value if comparison == "in" else (value,)
    taken = [_value(column, each) for each in values if each is not None]
    if len(taken) != len(values) and comparison != "in":
        return None
    if any(each is None for each in taken):
        return None
    return Filter(column, comparison, tuple(taken) if comparison == "in" else taken[0])


def _value(column: str, value: Any) -> Any:
    """As the column holds it; None for what it cannot hold."""
    kind = MESSAGE_SCHEMA.field(column).type
    if pa.types.is_timestamp(kind):
        if not isinstance(value, datetime) or value.tzinfo is None:
            return None
        return (value - _EPOCH) // timedelta(microseconds=1)
    if pa.types.is_integer(kind):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if pa.types.is_binary(kind):
        return bytes(value) if isinstance(value, bytes | bytearray) else None
    return value if isinstance(value, str) else None
