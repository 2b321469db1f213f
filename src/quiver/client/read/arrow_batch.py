"""Frames as Arrow batches with the columns of every Quiver reader."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.client.read.cursor import ReadFrame
from quiver.model.priority import NAMES
from quiver.records.arrow_arrays import mask_array, number_array, repeated_text, to_numbers
from quiver.records.columns import HEADERS, HEADERS_TYPE, KEY, OFFSET_DELTA, TIMESTAMP, VALUE

_TIME = pa.timestamp("ms", "UTC")
BATCH_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _TIME, nullable=False),
        pa.field("append_time", _TIME, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS_TYPE),
        pa.field("priority", pa.string(), nullable=False),
    ]
)

_OFFSET, _BINARY = pa.int64(), pa.binary()
_KEPT_AT_LEAST = 256
_NULLS = {kind: pa.nulls(_KEPT_AT_LEAST, kind) for kind in (_BINARY, HEADERS_TYPE)}
_kept_steps = np.arange(_KEPT_AT_LEAST)
_texts: dict[str, pa.Array] = {}


def arrow_batch(read: ReadFrame) -> pa.RecordBatch:
    """The wanted messages of a frame; values are not copied."""
    frame, header = read.frame, read.frame.header
    count = header.record_count
    times, key, headers = frame.column(TIMESTAMP), frame.column(KEY), frame.column(HEADERS)
    # One piece of memory for three columns: many frames are small.
    numbers = np.empty((3, count), np.int64)
    offsets, numbers[1], numbers[2] = numbers[0], header.min_timestamp_ms, header.append_time_ms
    deltas = frame.column(OFFSET_DELTA)
    np.add(_steps(count) if deltas is None else to_numbers(deltas), header.base_offset, out=offsets)
    buffers = [None, pa.py_buffer(numbers)]
    batch = pa.RecordBatch.from_arrays(
        [
            number_array(np.full(count, read.partition, np.int32)),
            pa.Array.from_buffers(_OFFSET, count, buffers),
            pa.Array.from_buffers(_TIME, count, buffers, offset=count) if times is None else times.view(_TIME),
            pa.Array.from_buffers(_TIME, count, buffers, offset=2 * count),
            _nulls(_BINARY, count) if key is None else key,
            frame.column(VALUE),
            _nulls(HEADERS_TYPE, count) if headers is None else headers,
            _repeated(NAMES[header.priority], count),
        ],
        schema=BATCH_SCHEMA,
    )
    if read.past is not None:
        return batch.filter(mask_array(read.wanted))
    if header.base_offset >= read.start and header.last_offset < read.stop:
        return batch
    first, end = (int(place) for place in offsets.searchsorted([read.start, read.stop]))
    return batch.slice(first, end - first)


def _repeated(text: str, count: int) -> pa.Array:
    """A column of one text; a slice of an array that is kept, because every frame needs one."""
    found = _texts.get(text)
    if found is None or len(found) < count:
        found = _texts[text] = repeated_text(text, _kept_length(count))
    return found.slice(0, count)


def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    found = _NULLS[kind]
    if len(found) < count:
        found = _NULLS[kind] = pa.nulls(_kept_length(count), kind)
    return found.slice(0, count)


def _steps(count: int) -> npt.NDArray[np.int64]:
    global _kept_steps
    found = _kept_steps
    if len(found) < count:
        found = _kept_steps = np.arange(_kept_length(count))
    return found[:count]


def _kept_length(count: int) -> int:
    """So that what is kept is made again only a few times."""
    return max(_KEPT_AT_LEAST, 1 << (count - 1).bit_length())
