"""Removes messages from a frame before it is stored; the others close up."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.records.arrow_arrays import mask_array, to_numbers
from quiver.records.build import seal
from quiver.records.columns import TIMESTAMP, Arrays, layout_for
from quiver.records.header import COMPRESSION_NAMES, FrameHeader


def cut_frame(header: FrameHeader, batch: pa.RecordBatch, kept: npt.NDArray[np.bool_]) -> bytearray:
    """A producer's frame with only the `kept` messages, of which there must be some. Everything else stays as it was,
    including the columns."""
    rows = batch.filter(mask_array(kept))
    columns = layout_for(header.columns).columns
    arrays: Arrays = {column.bit: rows.column(place) for place, column in enumerate(columns)}
    low, high = header.min_timestamp_ms, header.max_timestamp_ms
    if TIMESTAMP.bit in arrays:
        times = to_numbers(arrays[TIMESTAMP.bit])
        low, high = int(times.min()), int(times.max())
    return seal(
        arrays,
        low,
        high,
        priority=header.priority,
        compression=COMPRESSION_NAMES[header.compression],
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        schema_id=header.schema_id,
        transactional=header.is_transactional,
    )
