"""Building frames: from lists of values, from Arrow tables, and from columns that are ready (`seal`)."""

import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from typing import Any, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quiver.model.errors import FrameTooLarge, InvalidRequest
from quiver.model.limits import KIB
from quiver.records.arrow_arrays import bitmap, number_array
from quiver.records.arrow_input import arrow_columns
from quiver.records.arrow_message import BytesList, Message, Piece, message_of
from quiver.records.columns import (
    DELIVER_AT,
    EXPIRES_AT,
    HEADERS,
    HEADERS_TYPE,
    ID,
    KEY,
    MAX_TIMESTAMP_MS,
    TIMESTAMP,
    VALUE,
    Arrays,
    Column,
    layout_for,
)
from quiver.records.header import (
    ALIGNMENT,
    COMPRESSION_CODES,
    COMPRESSION_NONE,
    CONTROL,
    HEADER_BYTES,
    NO_PRODUCER,
    PADDING_SHIFT,
    SAMPLED,
    TRANSACTIONAL,
    FrameHeader,
    body_crc,
    pack_header,
)
from quiver.records.traced.column import TraceHeaders
from quiver.records.traced.entries import has_sampled

_MAX_COLUMN_BYTES = 2**31 - 1
_HAS_PANDAS = find_spec("pandas") is not None
_CRC = struct.Struct("<I")
_CRC_POSITION = 4
_MAX_BODY_BYTES = 2**31 - ALIGNMENT
_LOWEST_PRIORITY = 4
_LARGE_BYTES = 64 * KIB
"""From here on it pays not to copy a column twice."""


Columns = Mapping[int, Any]
"""Arrays, BytesLists and TraceHeaders by their header bit."""
_Frame = TypeVar("_Frame", bytearray, memoryview)


class FrameOptions(TypedDict, total=False):
    """Options of a frame as a whole."""

    priority: int
    compression: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    schema_id: int
    transactional: bool
    control: bool


class SealOptions(FrameOptions, total=False):
    last_offset_delta: int | None
    """For frames that lost messages, and so have an offset_delta column."""


def build_frame(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int | None = None,
    timestamps_ms: Sequence[int] | None = None,
    headers: Sequence[Mapping[str, bytes] | None] | None = None,
    deliver_at_ms: Sequence[int | None] | None = None,
    expires_at_ms: Sequence[int | None] | None = None,
    ids: Sequence[bytes | None] | None = None,
    **options: Unpack[FrameOptions],
) -> bytearray:
    """A producer's frame, one message per value; a value of None is a tombstone.

    Needs `timestamp_ms`, one for all, or `timestamps_ms`. Columns that are None throughout take no space.
    Raises InvalidRequest for what does not fit; `check_frame` checks the broker's size limits.
    """
    count = len(values)
    if count == 0:
        raise InvalidRequest(problem="a frame needs at least one message")
    arrays: Arrays = {VALUE.bit: _array(VALUE, values, count)}
    if timestamps_ms is not None:
        low, high = _add_timestamps(arrays, timestamps_ms, count)
    elif timestamp_ms is not None:
        low = high = timestamp_ms
    else:
        raise InvalidRequest(problem="a frame needs timestamp_ms or timestamps_ms")
    if headers is not None:
        _add_headers(arrays, headers, count)
    for column, items in ((KEY, keys), (DELIVER_AT, deliver_at_ms), (EXPIRES_AT, expires_at_ms), (ID, ids)):
        if items is not None:
            _add(arrays, column, items, count)
    return seal(arrays, low, high, **options)


def build_frame_from_arrow(
    batch: pa.RecordBatch | pa.Table, *, timestamp_ms: int, **options: Unpack[FrameOptions]
) -> bytearray:
    """A producer's frame from Arrow columns: `value`, and optionally `key`, `timestamp`, `headers`, `id`.

    `timestamp_ms` is for rows without their own timestamp. Raises InvalidRequest with the column that is missing,
    unknown, or of a wrong type.
    """
    arrays, low, high = arrow_columns(batch, timestamp_ms)
    return seal(arrays, low, high, **options)


def seal(arrays: Columns, min_timestamp_ms: int, max_timestamp_ms: int, **options: Unpack[SealOptions]) -> bytearray:
    """A producer's frame of these columns; the fields that the broker stamps are zero."""
    return _seal(bytearray().join, arrays, min_timestamp_ms, max_timestamp_ms, **options)


def seal_into(
    join: Callable[[Iterable[Piece]], memoryview],
    arrays: Columns,
    min_timestamp_ms: int,
    max_timestamp_ms: int,
    **options: Unpack[SealOptions],
) -> memoryview:
    """The same in memory of the caller, into which `join` copies the pieces."""
    return _seal(join, arrays, min_timestamp_ms, max_timestamp_ms, **options)


def _seal(
    join: Callable[[Iterable[Piece]], _Frame],
    arrays: Columns,
    min_timestamp_ms: int,
    max_timestamp_ms: int,
    *,
    priority: int = 2,
    compression: str = "none",
    producer_id: int = NO_PRODUCER,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    schema_id: int = 0,
    transactional: bool = False,
    control: bool = False,
    last_offset_delta: int | None = None,
) -> _Frame:
    if not 0 <= priority <= _LOWEST_PRIORITY:
        raise InvalidRequest(problem=f"priority {priority} is not one of 0 to {_LOWEST_PRIORITY}")
    if not 0 <= min_timestamp_ms <= max_timestamp_ms <= MAX_TIMESTAMP_MS:
        raise InvalidRequest(problem="timestamps must be epoch milliseconds within the years 1970 to 9999")
    columns = sum(arrays)
    value = arrays[VALUE.bit]
    is_large = isinstance(value, BytesList) or value.nbytes >= _LARGE_BYTES
    message = (message_of(arrays, columns) if is_large else None) or _arrow_message(arrays, columns)
    size = message.size_bytes
    if size > _MAX_BODY_BYTES:
        raise FrameTooLarge(size=size, limit=_MAX_BODY_BYTES)
    code = COMPRESSION_CODES.get(compression)
    if code is None:
        raise InvalidRequest(problem=f"compression {compression!r} is not one of {', '.join(COMPRESSION_CODES)}")
    pieces = message.pieces
    if code != COMPRESSION_NONE:
        compressed = pa.Codec(compression).compress(pieces[0] if len(pieces) == 1 else join(pieces))
        pieces, size = (compressed,), compressed.size
    padding = -size % ALIGNMENT
    attributes = code | padding << PADDING_SHIFT | (TRANSACTIONAL if transactional else 0)
    if control:
        attributes |= CONTROL
    if HEADERS.bit in arrays and has_sampled(arrays[HEADERS.bit]):
        attributes |= SAMPLED
    return _joined(
        join,
        FrameHeader(
            priority=priority,
            body_crc=0,
            base_offset=0,
            leader_epoch=0,
            header_crc=0,
            append_time_ms=0,
            length=size + padding,
            uncompressed_length=message.size_bytes,
            record_count=message.record_count,
            last_offset_delta=message.record_count - 1 if last_offset_delta is None else last_offset_delta,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            min_timestamp_ms=min_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
            schema_id=schema_id,
            attributes=attributes,
            columns=columns,
        ),
        pieces,
        padding,
    )


def _array(column: Column, items: Sequence[Any], count: int) -> pa.Array:
    name = column.field.name
    if len(items) != count:
        raise InvalidRequest(problem=f"there are {count} values and {len(items)} of {name}")
    try:
        array = list_array(items, column.field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(problem=f"{name}: {error}") from error
    if isinstance(array, pa.ChunkedArray):
        raise FrameTooLarge(size=array.nbytes, limit=_MAX_COLUMN_BYTES)
    return array


def _add(arrays: Arrays, column: Column, items: Sequence[Any], count: int) -> None:
    array = _array(column, items, count)
    if array.null_count == count:
        return
    if column in (DELIVER_AT, EXPIRES_AT):
        low, high = _bounds(array)
        if low < 0 or high > MAX_TIMESTAMP_MS:
            raise InvalidRequest(problem=f"{column.field.name} must be within the years 1970 to 9999")
    arrays[column.bit] = array


def _add_timestamps(arrays: Arrays, timestamps_ms: Sequence[int], count: int) -> tuple[int, int]:
    """Adds the column unless all values are equal; returns the lowest and the highest."""
    array = _array(TIMESTAMP, timestamps_ms, count)
    if array.null_count:
        raise InvalidRequest(problem="timestamp: every message needs one")
    low, high = _bounds(array)
    if low != high:
        arrays[TIMESTAMP.bit] = array
    return low, high


def _bounds(array: pa.Array) -> tuple[int, int]:
    """The lowest and the highest; nulls do not count."""
    found = pc.min_max(array)
    return found["min"].as_py(), found["max"].as_py()


def _add_headers(arrays: Arrays, headers: Sequence[Mapping[str, bytes] | None], count: int) -> None:
    if len(headers) != count:
        raise InvalidRequest(problem=f"there are {count} values and {len(headers)} of headers")
    if not any(headers):
        return
    rows = [row or {} for row in headers]
    ends = np.zeros(count + 1, np.int32)
    np.cumsum([len(row) for row in rows], out=ends[1:])
    try:
        names = list_array(list(chain.from_iterable(rows)), HEADERS_TYPE.key_type)
        contents = list_array(list(chain.from_iterable(row.values() for row in rows)), HEADERS_TYPE.item_type)
        column = pa.MapArray.from_arrays(number_array(ends), names, contents)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise InvalidRequest(problem=f"headers: {error}") from error
    if names.null_count or contents.null_count:
        raise InvalidRequest(problem="headers: neither a name nor a value may be None")
    arrays[HEADERS.bit] = column


def _to_array(items: Any, column: Column) -> pa.Array:
    if isinstance(items, BytesList):
        return list_array(items.items, column.field.type)
    return items.to_array() if isinstance(items, TraceHeaders) else items


def _arrow_message(arrays: Columns, columns: int) -> Message:
    """As Arrow writes it."""
    layout = layout_for(columns)
    try:
        found = [_to_array(arrays[column.bit], column) for column in layout.columns]
        batch = pa.RecordBatch.from_arrays(found, schema=layout.schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(problem=f"the columns do not fit together ({error})") from error
    message = batch.serialize()
    return Message((message,), message.size, batch.num_rows)


def _joined(
    join: Callable[[Iterable[Piece]], _Frame], header: FrameHeader, body: Sequence[Piece], padding: int
) -> _Frame:
    try:
        packed = pack_header(header)
    except struct.error as error:
        raise InvalidRequest(problem=f"a number does not fit its field in the frame header ({error})") from error
    frame = join((packed, *body, bytes(padding)))
    _CRC.pack_into(frame, _CRC_POSITION, body_crc(packed, memoryview(frame)[HEADER_BYTES:]))
    return frame


def list_array(items: Sequence[Any], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """What `pa.array(items, kind)` returns or raises, for columns of bytes, strings and 64-bit numbers.

    `pa.array` imports pandas (see `arrow_arrays`). It is somewhat faster with lists, so it is used if pandas is
    loaded already or not installed.
    """
    if not _would_import_pandas() or type(items) not in (list, tuple):
        return pa.array(items, kind)
    if pa.types.is_int64(kind):
        built = _integers(items)
    elif pa.types.is_string(kind):
        built = _strings(items)
    else:
        built = _binaries(items, kind)
    return pa.array(items, kind) if built is None else built


def headers_array(rows: Sequence[Mapping[str, bytes] | None]) -> pa.Array:
    """A map per message; null where there is None."""
    ends = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row) if row else 0 for row in rows], out=ends[1:])
    pairs = _pairs([row for row in rows if row])
    validity, null_count = _validity(rows)
    return pa.Array.from_buffers(
        HEADERS_TYPE, len(rows), [validity, pa.py_buffer(ends)], null_count, children=[pairs]
    )


def sparse_headers(count: int, rows: Mapping[int, Mapping[str, bytes]]) -> pa.Array:
    """A map per message for the few rows that have one; null for the others, which cost next to nothing."""
    present, ends = np.zeros(count, np.bool_), np.zeros(count + 1, np.int32)
    places = np.fromiter(rows, np.int64, len(rows))
    present[places] = True
    ends[places + 1] = [len(row) for row in rows.values()]
    np.cumsum(ends, out=ends)
    validity = bitmap(present) if len(rows) < count else None
    buffers = [validity, pa.py_buffer(ends)]
    return pa.Array.from_buffers(
        HEADERS_TYPE, count, buffers, count - len(rows), children=[_pairs(list(rows.values()))]
    )


def _pairs(rows: Sequence[Mapping[str, bytes]]) -> pa.StructArray:
    """Names and contents of headers, one message after the other."""
    names = list_array(list(chain.from_iterable(rows)), HEADERS_TYPE.key_type)
    contents = list_array(list(chain.from_iterable(row.values() for row in rows)), HEADERS_TYPE.item_type)
    return pa.StructArray.from_arrays([names, contents], fields=[HEADERS_TYPE.key_field, HEADERS_TYPE.item_field])


def _would_import_pandas() -> bool:
    return _HAS_PANDAS and "pandas" not in sys.modules


def _binaries(items: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """None if anything but bytes is among them."""
    present, validity, null_count = items, None, 0
    try:
        data = b"".join(present)
    except TypeError:
        present = [b"" if item is None else item for item in items]
        validity, null_count = _validity(items)
        try:
            data = b"".join(present)
        except TypeError:
            return None
    ends = np.zeros(len(items) + 1, np.int64)
    np.fromiter(map(len, present), np.int64, len(items)).cumsum(out=ends[1:])
    if ends[-1] != len(data) or len(data) > _MAX_COLUMN_BYTES:
        return None
    buffers = [validity, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(items), buffers, null_count)


def _strings(items: Sequence[Any]) -> pa.Array | None:
    if all(type(item) is str for item in items):
        return _binaries([item.encode() for item in items], pa.string())
    return None


def _integers(items: Sequence[Any]) -> pa.Array | None:
    """None if anything but 64-bit whole numbers is among them."""
    if not all(item is None or type(item) is int for item in items):
        return None
    validity, null_count = _validity(items)
    try:
        numbers = array("q", [0 if item is None else item for item in items] if null_count else items)
    except OverflowError:
        return None
    return pa.Array.from_buffers(pa.int64(), len(items), [validity, pa.py_buffer(numbers)], null_count)


def _validity(items: Sequence[Any]) -> tuple[pa.Buffer | None, int]:
    """The bitmap of what is not None, left out if nothing is None; and the number of Nones."""
    present = np.fromiter((item is not None for item in items), np.bool_, len(items))
    null_count = len(items) - int(present.sum())
    return (bitmap(present) if null_count else None), null_count
