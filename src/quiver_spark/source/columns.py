"""The columns of a message in Spark, and how stored frames become Arrow batches with them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.model.errors import InvalidRequest
from quiver.model.priority import NAMES
from quiver.records.arrow_arrays import to_numbers
from quiver.records.columns import HEADERS, HEADERS_TYPE, KEY, OFFSET_DELTA, TIMESTAMP, VALUE, Column
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame
from quiver_spark.column_types import SPARK_SCHEMA, SPARK_TYPES
from quiver_spark.source.slices import Slice

TIME = pa.timestamp("us", "UTC")
"""What Spark's `timestamp` is in Arrow; Quiver's times are milliseconds."""
MESSAGE_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIME),
        pa.field("append_time", TIME),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("priority", pa.string()),
    ]
)
COLUMNS: tuple[str, ...] = tuple(MESSAGE_SCHEMA.names)
_Integers = npt.NDArray[np.int64]
_BODY_COLUMNS = frozenset(("key", "value", "headers"))
_STORED: dict[str, Column] = {"key": KEY, "value": VALUE, "headers": HEADERS}


class FrameRows(NamedTuple):
    """The rows from `first` to below `stop` of a frame. Its body is opened only where a column needs it."""

    header: FrameHeader
    frame: OpenFrame | None
    first: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.first


def needs_body(header: FrameHeader, columns: Sequence[str]) -> bool:
    """Whether these columns need more than the header."""
    if not _BODY_COLUMNS.isdisjoint(columns) or header.columns & OFFSET_DELTA.bit:
        return True
    return "timestamp" in columns and bool(header.columns & TIMESTAMP.bit)


def may_need_no_body(columns: Sequence[str]) -> bool:
    """Whether there are frames whose headers have all of these columns."""
    return _BODY_COLUMNS.isdisjoint(columns)


def rows_between(header: FrameHeader, frame: OpenFrame | None, start: int, stop: int) -> FrameRows:
    """The rows of a frame with offsets in a range."""
    base, count = header.base_offset, header.record_count
    if start <= base and header.last_offset < stop:
        return FrameRows(header, frame, 0, count)
    if frame is not None and header.columns & OFFSET_DELTA.bit:
        deltas = numbers_of(frame, OFFSET_DELTA)
        first, stop = (int(place) for place in deltas.searchsorted([start - base, stop - base]))
        return FrameRows(header, frame, first, stop)
    return FrameRows(header, frame, min(count, max(0, start - base)), max(0, min(count, stop - base)))


def check_columns(types: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The names of the columns that a user's schema asks for. Raises InvalidRequest if there is none like it."""
    for name, kind in types:
        if SPARK_TYPES.get(name) != kind:
            known = f"{name} {SPARK_TYPES[name]}" if name in SPARK_TYPES else SPARK_SCHEMA
            raise InvalidRequest(problem=f"the quiver source has no column {name} {kind}; ask for {known}")
    return tuple(name for name, _ in types)


class BatchBuilder:
    """Makes batches of the requested columns from the frames of one slice."""

    def __init__(self, slice_: Slice, columns: Sequence[str]) -> None:
        self._slice = slice_
        self._columns = tuple(columns)
        self._schema = pa.schema([MESSAGE_SCHEMA.field(name) for name in self._columns])
        self._constants: dict[tuple[str, object], pa.Array] = {}

    def batch(self, parts: Sequence[FrameRows]) -> pa.RecordBatch:
        """One batch of all parts; columns of a single part are not copied."""
        count = sum(part.rows for part in parts)
        arrays = [self._array(name, parts, count) for name in self._columns]
        if not arrays:
            return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _array(self, name: str, parts: Sequence[FrameRows], count: int) -> pa.Array:
        match name:
            case "topic":
                return self._constant(pa.string(), self._slice.topic, count)
            case "partition":
                return self._constant(pa.int32(), self._slice.partition, count)
            case "offset":
                return number_column(_joined(list(_offsets(parts))), pa.int64())
            case "timestamp":
                return _times(_joined([_timestamps(part) for part in parts]))
            case "append_time":
                times = np.array([part.header.append_time_ms for part in parts], np.int64)
                return _times(np.repeat(times, [part.rows for part in parts]))
            case "priority":
                return self._priorities(parts, count)
            case _:
                return self._stored(_STORED[name], parts)

    def _stored(self, column: Column, parts: Sequence[FrameRows]) -> pa.Array:
        arrays = []
        for part in parts:
            assert part.frame is not None
            found = part.frame.column(column)
            if found is None:
                found = self._constant(column.field.type, None, part.rows)
            elif len(found) != part.rows:
                found = found.slice(part.first, part.rows)
            arrays.append(found)
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def _priorities(self, parts: Sequence[FrameRows], count: int) -> pa.Array:
        levels = {part.header.priority for part in parts}
        if len(levels) == 1:
            return self._constant(pa.string(), NAMES[levels.pop()], count)
        return pa.concat_arrays(
            [self._constant(pa.string(), NAMES[part.header.priority], part.rows) for part in parts]
        )

    def _constant(self, kind: pa.DataType, value: Any, count: int) -> pa.Array:
        """A column of one value: a slice of an array that is kept, because every batch needs one."""
        name = (str(kind), value)
        found = self._constants.get(name)
        if found is None or len(found) < count:
            found = pa.nulls(count, kind) if value is None else repeated(value, count)
            self._constants[name] = found
        return found.slice(0, count)


def _offsets(parts: Sequence[FrameRows]) -> Iterator[_Integers]:
    """Offsets of the parts; frames without gaps between them are numbered together."""
    begin = end = -1
    for part in parts:
        header = part.header
        if header.columns & OFFSET_DELTA.bit:
            if end > begin:
                yield np.arange(begin, end)
            begin = end = -1
            deltas = numbers_of(part.frame, OFFSET_DELTA)[part.first : part.stop]
            yield deltas + np.int64(header.base_offset)
            continue
        if header.base_offset + part.first != end:
            if end > begin:
                yield np.arange(begin, end)
            begin = header.base_offset + part.first
        end = header.base_offset + part.stop
    if end > begin:
        yield np.arange(begin, end)


def _timestamps(part: FrameRows) -> _Integers:
    header = part.header
    if not header.columns & TIMESTAMP.bit:
        return np.full(part.rows, header.min_timestamp_ms, np.int64)
    return numbers_of(part.frame, TIMESTAMP)[part.first : part.stop]


def numbers_of(frame: OpenFrame | None, column: Column) -> _Integers:
    """A column without nulls that the frame must have."""
    assert frame is not None
    found = frame.column(column)
    assert found is not None
    numbers: _Integers = to_numbers(found)
    return numbers


def _times(milliseconds: _Integers) -> pa.Array:
    return number_column(milliseconds * 1000, TIME)


def number_column(numbers: npt.NDArray[np.signedinteger[Any]], kind: pa.DataType) -> pa.Array:
    """An Arrow array on numpy's memory. `pa.array` would import pandas in every worker, which takes a second."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def repeated(value: str | int, count: int) -> pa.Array:
    """A column of one text or one number of 32 bits. `pa.repeat` would import pandas too."""
    if isinstance(value, int):
        return number_column(np.full(count, value, np.int32), pa.int32())
    data = value.encode()
    ends = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _joined(arrays: list[_Integers]) -> _Integers:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
