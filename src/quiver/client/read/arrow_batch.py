"""Frames as Arrow batches with the columns of every Quiver reader."""

import numpy as np
import pyarrow as pa

from quiver.client.read.cursor import ReadFrame
from quiver.model.priority import NAMES
from quiver.records.arrow_arrays import mask_array, number_array, repeated_text, to_numbers
from quiver.records.columns import HEADERS_TYPE

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

_constants: dict[int | str, pa.Array] = {}


def arrow_batch(read: ReadFrame) -> pa.RecordBatch:
    """The wanted messages of a frame; values are not copied."""
    frame, header = read.frame, read.frame.header
    plain = frame.to_arrow()
    count = plain.num_rows
    batch = pa.RecordBatch.from_arrays(
        [
            _constant(read.partition, count),
            plain.column("offset"),
            plain.column("timestamp").view(_TIME),
            number_array(np.full(count, header.append_time_ms, np.int64), _TIME),
            plain.column("key"),
            plain.column("value"),
            plain.column("headers"),
            _constant(NAMES[header.priority], count),
        ],
        schema=BATCH_SCHEMA,
    )
    if read.past is not None:
        return batch.filter(mask_array(read.wanted))
    if header.base_offset >= read.start and header.last_offset < read.stop:
        return batch
    offsets = to_numbers(plain.column("offset"))
    first, end = (int(place) for place in offsets.searchsorted([read.start, read.stop]))
    return batch.slice(first, end - first)


def _constant(value: int | str, count: int) -> pa.Array:
    """A column of one value: a slice of one array that is kept, because every frame needs one."""
    found = _constants.get(value)
    if found is None or len(found) < count:
        if len(_constants) > 1000:
            _constants.clear()
        length = max(count, 1024)
        found = (
            number_array(np.full(length, value, np.int32)) if isinstance(value, int) else repeated_text(value, length)
        )
        _constants[value] = found
    return found.slice(0, count)
