"""The profile of a topic: figures for programs, a table and charts for people. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import isinf
from typing import Any, NamedTuple

from quiver_spark.jobs.profile.field_rows import FLOAT, NULL
from quiver_spark.jobs.profile.transforms import SHARES
from quiver_spark.jobs.terminal import bar_lines, table_lines

_MOST_BARS = 40
_FIRST = ("key", "value")


class Column(NamedTuple):
    """One column of messages, or a field of their JSON values."""

    name: str
    types: Mapping[str, int]
    """How many messages have each type, without nulls; the most frequent first."""
    nulls: int
    distinct: int
    low: float | None
    high: float | None
    """Whole numbers unless some values are floats."""
    bytes: int

    @property
    def filled(self) -> int:
        return sum(self.types.values())

    def record(self, rows: int) -> dict[str, Any]:
        missing = max(0, rows - self.filled - self.nulls)
        given = {"column": self.name, "types": dict(self.types), "nulls": self.nulls, "missing": missing}
        return {**given, "distinct": self.distinct, "low": self.low, "high": self.high, "bytes": self.bytes}


def columns_of(figures: Iterable[Mapping[str, Any]]) -> list[Column]:
    """Key and value first, then the others by name."""
    gathered: dict[str, list[Mapping[str, Any]]] = {}
    for row in figures:
        gathered.setdefault(row["column"], []).append(row)
    found = [_column(name, rows) for name, rows in gathered.items()]
    return sorted(found, key=lambda column: (column.name not in _FIRST, column.name))


def _column(name: str, rows: list[Mapping[str, Any]]) -> Column:
    typed = sorted((row for row in rows if row["kind"] != NULL), key=lambda row: -row["rows"])
    lows = [row["low"] for row in typed if row["low"] is not None]
    highs = [row["high"] for row in typed if row["high"] is not None]
    shown = (lambda size: size) if any(row["kind"] == FLOAT for row in typed) else _whole
    return Column(
        name,
        {row["kind"]: row["rows"] for row in typed},
        sum(row["rows"] for row in rows if row["kind"] == NULL),
        sum(min(row["distinct"], row["rows"]) for row in typed),
        shown(min(lows, default=None)),
        shown(max(highs, default=None)),
        sum(row["bytes"] for row in typed),
    )


def _whole(size: float | None) -> float | None:
    return size if size is None or isinf(size) else int(size)


def message_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of all messages or of one partition."""
    sizes = dict(zip((f"p{share * 100:g}" for share in SHARES), row["value_bytes"] or [0] * len(SHARES), strict=True))
    plain = {name: row[name] for name in ("with_key", "keys", "tombstones", "with_headers")}
    times = {name: _time(row[name]) for name in ("first", "last")}
    return {**plain, "value_bytes": {**sizes, "max": row["largest_bytes"] or 0}, **times}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def profile_lines(columns: list[Column], rows: int, partitions: Mapping[int, int]) -> list[str]:
    """A table of the columns, how filled they are, and how many messages each partition has."""
    heads = ("column", "types", "nulls", "missing", "distinct", "low", "high", "mean bytes")
    table = [_cells(column, rows) for column in columns]
    shares = [(each.name, each.filled / rows, f"{each.filled / rows:.1%}") for each in columns[:_MOST_BARS]]
    counts = [(f"partition {number}", count, f"{count:,}") for number, count in sorted(partitions.items())]
    return [
        *table_lines(heads, table),
        *bar_lines("messages with a value", shares, 1.0),
        *bar_lines("messages by partition", counts[:_MOST_BARS]),
    ]


def _cells(column: Column, rows: int) -> tuple[object, ...]:
    record = column.record(rows)
    types = ", ".join(column.types) or NULL
    mean = column.bytes / column.filled if column.filled else None
    return column.name, types, column.nulls, record["missing"], column.distinct, column.low, column.high, mean
