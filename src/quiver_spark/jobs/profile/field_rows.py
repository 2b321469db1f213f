"""What batches of messages have in their keys, values, headers and priorities, counted by column, type and value.

A JSON value gives a column for each field, `value.customer.city`; an array is one value. Pure.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa

FIELD_COLUMNS = "column string, kind string, digest bigint, count bigint, low double, high double, bytes bigint"
_SCHEMA = pa.schema(
    [
        (name, {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}[kind])
        for name, kind in (column.split() for column in FIELD_COLUMNS.split(", "))
    ]
)
_DEEPEST = 8
NULL, FLOAT = "null", "float"
_Found = tuple[str, bytes, float | None, int]
"""A type, what tells a value from others, where it is between the lowest and the highest, and its bytes."""


def field_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """From rows with key, value, headers and priority to rows of FIELD_COLUMNS, one for each different value."""
    for batch in batches:
        counts = _Counts()
        for row in batch.to_pylist():
            counts.add("key", _plain(row["key"]))
            counts.add("priority", _plain(row["priority"]))
            _add_value(counts, row["value"])
            for name, value in dict(row["headers"] or ()).items():
                counts.add(f"headers.{name}", _plain(value))
        yield counts.batch()


class _Counts:
    def __init__(self) -> None:
        self._cells: dict[tuple[str, str, bytes], list[Any]] = {}

    def add(self, column: str, found: _Found) -> None:
        kind, text, size, size_bytes = found
        digest = blake2b(text, digest_size=8).digest()
        cell = self._cells.get((column, kind, digest))
        if cell is None:
            self._cells[column, kind, digest] = [1, size, size, size_bytes]
        else:
            cell[0] += 1
            cell[3] += size_bytes

    def batch(self) -> pa.RecordBatch:
        rows = [
            (column, kind, int.from_bytes(digest, signed=True), *cell)
            for (column, kind, digest), cell in self._cells.items()
        ]
        columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(_SCHEMA)
        arrays = [pa.array(list(values), field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _add_value(counts: _Counts, value: bytes | None) -> None:
    if value is None:
        counts.add("value", _plain(None))
        return
    try:
        decoded = msgspec.json.decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        counts.add("value", _plain(value))
        return
    kind = _json(decoded)[0]
    counts.add("value", (f"json {kind}", value, len(value), len(value)))
    if isinstance(decoded, dict):
        _add_fields(counts, "value", decoded, 1)


def _add_fields(counts: _Counts, place: str, fields: dict[str, Any], depth: int) -> None:
    for name, value in fields.items():
        column = f"{place}.{name}"
        if isinstance(value, dict) and depth < _DEEPEST:
            counts.add(column, ("object", b"", None, 0))
            _add_fields(counts, column, value, depth + 1)
        else:
            counts.add(column, _json(value))


def _plain(value: bytes | str | None) -> _Found:
    """Bytes that are not JSON, or a text: its lowest and highest are those of its length."""
    if value is None:
        return NULL, b"", None, 0
    if isinstance(value, str):
        return "string", value.encode(), len(value), len(value)
    try:
        value.decode()
    except UnicodeDecodeError:
        return "binary", value, len(value), len(value)
    return "string", value, len(value), len(value)


def _json(value: Any) -> _Found:
    """Numbers have their own lowest and highest, texts and arrays those of their length."""
    match value:
        case None:
            return NULL, b"", None, 0
        case bool():
            return "boolean", b"1" if value else b"0", None, 1
        case int():
            return "integer", b"%d" % value, _bounded(value), 8
        case float():
            return FLOAT, repr(value).encode(), value, 8
        case str():
            text = value.encode()
            return "string", text, len(value), len(text)
    text = msgspec.json.encode(value)
    return ("array" if isinstance(value, list) else "object"), text, len(value), len(text)


def _bounded(value: int) -> float:
    """JSON has integers of any length, a float does not."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
