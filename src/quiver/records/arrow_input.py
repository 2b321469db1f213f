"""Converts Arrow data of users into the columns of a frame."""

import pyarrow as pa
from pyarrow import types

from quiver.model.errors import InvalidRequest
from quiver.records.arrow_arrays import number_scalar, to_numbers
from quiver.records.columns import HEADERS, ID, KEY, TIMESTAMP, VALUE, Arrays, Column

_TAKEN = {column.field.name: column for column in (VALUE, KEY, TIMESTAMP, HEADERS, ID)}


def arrow_columns(batch: pa.RecordBatch | pa.Table, timestamp_ms: int) -> tuple[Arrays, int, int]:
    """The columns, and the lowest and highest timestamp; columns without any content are left out.

    Text becomes bytes, timestamps of any unit become milliseconds (finer parts are cut off; without a zone they are
    UTC), and rows without a timestamp get `timestamp_ms`.
    """
    names = batch.schema.names
    for name in names:
        if name not in _TAKEN or names.count(name) > 1:
            raise InvalidRequest(problem=f"column {name!r} is not one of {', '.join(_TAKEN)}, each once")
    if "value" not in names:
        raise InvalidRequest(problem="there is no column 'value'")
    if batch.num_rows == 0:
        raise InvalidRequest(problem="a frame needs at least one message")
    arrays: Arrays = {VALUE.bit: _binary(batch, VALUE)}
    for column in (KEY, ID):
        if column.field.name in names:
            items = _binary(batch, column)
            if items.null_count < len(items):
                arrays[column.bit] = items
    if "headers" in names:
        headers = _headers(batch)
        if headers is not None:
            arrays[HEADERS.bit] = headers
    low = high = timestamp_ms
    if "timestamp" in names:
        times = _milliseconds(batch, timestamp_ms)
        plain = to_numbers(times)
        low, high = int(plain.min()), int(plain.max())
        if low != high:
            arrays[TIMESTAMP.bit] = times
    return arrays, low, high


def _binary(batch: pa.RecordBatch | pa.Table, column: Column) -> pa.Array:
    array = _whole(batch, column)
    kind = array.type.value_type if types.is_dictionary(array.type) else array.type
    if not (_is_bytes(kind) or _is_text(kind) or types.is_null(kind)):
        raise InvalidRequest(
            problem=f"column {column.field.name!r} has type {array.type}; binary or string is needed"
        )
    return _cast(array, column, pa.binary())


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_binary_view(kind)
        or types.is_fixed_size_binary(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _headers(batch: pa.RecordBatch | pa.Table) -> pa.Array | None:
    headers = _cast(_whole(batch, HEADERS), HEADERS, HEADERS.field.type)
    first, end = headers.offsets[0].as_py(), headers.offsets[-1].as_py()
    if first == end:
        return None
    # The items of a sliced array are those of the whole one.
    if headers.items.slice(first, end - first).null_count:
        raise InvalidRequest(problem="column 'headers': a header value may not be null")
    return headers


def _milliseconds(batch: pa.RecordBatch | pa.Table, missing: int) -> pa.Array:
    array = _whole(batch, TIMESTAMP)
    if types.is_timestamp(array.type):
        # Cutting off microseconds is intended; an overflow when converting from seconds is not.
        wanted = pa.timestamp("ms", array.type.tz)
        array = _cast(array, TIMESTAMP, wanted, safe=array.type.unit == "s")
    elif not (types.is_integer(array.type) or types.is_null(array.type)):
        raise InvalidRequest(problem=f"column 'timestamp' has type {array.type}; int64 (ms) or a timestamp is needed")
    array = _cast(array, TIMESTAMP, pa.int64())
    return array.fill_null(number_scalar(missing)) if array.null_count else array


def _whole(batch: pa.RecordBatch | pa.Table, column: Column) -> pa.Array:
    """The column as one array."""
    found = batch.column(column.field.name)
    if not isinstance(found, pa.ChunkedArray):
        return found
    try:
        return found.chunk(0) if found.num_chunks == 1 else pa.concat_arrays(found.chunks)
    except pa.ArrowException as error:
        raise InvalidRequest(problem=f"column {column.field.name!r} does not fit one frame ({error})") from error


def _cast(array: pa.Array, column: Column, wanted: pa.DataType, *, safe: bool = True) -> pa.Array:
    if array.type == wanted:
        return array
    try:
        return array.cast(wanted, safe=safe)
    except pa.ArrowException as error:
        raise InvalidRequest(
            problem=f"column {column.field.name!r} of type {array.type} does not become {wanted} ({error})"
        ) from error
