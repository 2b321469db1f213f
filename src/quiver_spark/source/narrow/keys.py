"""The messages of a slice that have one of a few keys: frames without them are passed over."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from quiver.records.arrow_arrays import mask_array
from quiver.records.columns import KEY
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame
from quiver_spark.source.columns import BatchBuilder, rows_between
from quiver_spark.source.frames import BATCH_ROWS, opened, stored_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

_FEW_KEYS = 16
"""So many are looked for in the bytes of a frame's keys first; for more, every frame is gone through."""


def read_keys(
    slice_: Slice, options: ReadOptions, columns: Sequence[str], keys: frozenset[bytes]
) -> Iterator[pa.RecordBatch]:
    """The messages with one of the keys, in batches of the columns, in order of offset."""
    builder = BatchBuilder(slice_, columns)
    found: list[pa.RecordBatch] = []
    rows = 0
    for stored in stored_frames(slice_, options, _has_keys):
        if not _has_keys(stored.header):
            continue
        frame = opened(slice_, stored)
        if not may_have(frame, keys):
            continue
        part = rows_between(stored.header, frame, slice_.start, slice_.stop)
        among = (key in keys for key in keys_of(frame).slice(part.first, part.rows).to_pylist())
        batch = builder.batch([part]).filter(mask_array(np.fromiter(among, np.bool_, part.rows)))
        if batch.num_rows:
            found.append(batch)
            rows += batch.num_rows
        if rows >= BATCH_ROWS:
            yield pa.concat_batches(found)
            found, rows = [], 0
    if found:
        yield pa.concat_batches(found)


def may_have(frame: OpenFrame, keys: frozenset[bytes]) -> bool:
    """Whether the bytes of a frame's keys contain one of a few keys."""
    if len(keys) > _FEW_KEYS or b"" in keys:
        return True
    data = keys_of(frame).buffers()[2]
    text = b"" if data is None else data.to_pybytes()
    return any(key in text for key in keys)


def keys_of(frame: OpenFrame) -> pa.Array:
    """The keys of a frame that has some."""
    found = frame.column(KEY)
    assert found is not None
    return found


def _has_keys(header: FrameHeader) -> bool:
    return bool(header.columns & KEY.bit)
