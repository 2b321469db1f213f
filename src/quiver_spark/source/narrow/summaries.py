"""Frames as rows: for counts, and for least and greatest values, which the headers of frames have.

A row stands for as many messages as its column `quiver_rows` says. A frame is two rows, one with the least and one
with the greatest values of its messages, where the query asks for values that differ within a frame.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from quiver.model.priority import NAMES
from quiver.records.columns import OFFSET_DELTA, TIMESTAMP
from quiver.records.header import FrameHeader
from quiver_spark.source.columns import TIME, FrameRows, number_column, numbers_of, repeated, rows_between
from quiver_spark.source.frames import opened, stored_frames
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice

SUMMARY_COLUMN = ("quiver_rows", "bigint")
_DIFFER = frozenset(("offset", "timestamp"))
_FRAMES = 8_192


class FrameSummary(NamedTuple):
    """The messages of a frame that are in a slice."""

    messages: int
    priority: int
    append_ms: int
    offsets: tuple[int, int]
    timestamps_ms: tuple[int, int]


def summaries(slice_: Slice, options: ReadOptions, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of the columns and, last, the number of messages."""
    found: list[FrameSummary] = []

    def wants_body(header: FrameHeader) -> bool:
        return _needs_body(header, slice_, columns)

    for stored in stored_frames(slice_, options, wants_body):
        frame = opened(slice_, stored) if wants_body(stored.header) else None
        part = rows_between(stored.header, frame, slice_.start, slice_.stop)
        if part.rows:
            found.append(_summary(part, columns))
        if len(found) == _FRAMES:
            yield _batch(slice_, found, columns)
            found = []
    if found:
        yield _batch(slice_, found, columns)


def _needs_body(header: FrameHeader, slice_: Slice, columns: Sequence[str]) -> bool:
    has_gaps = bool(header.columns & OFFSET_DELTA.bit)
    if slice_.start <= header.base_offset and header.last_offset < slice_.stop:
        return has_gaps and "offset" in columns
    return has_gaps or ("timestamp" in columns and bool(header.columns & TIMESTAMP.bit))


def _summary(part: FrameRows, columns: Sequence[str]) -> FrameSummary:
    header, frame = part.header, part.frame
    offsets = header.base_offset + part.first, header.base_offset + part.stop - 1
    if frame is not None and header.columns & OFFSET_DELTA.bit:
        deltas = numbers_of(frame, OFFSET_DELTA)
        offsets = header.base_offset + int(deltas[part.first]), header.base_offset + int(deltas[part.stop - 1])
    times = header.min_timestamp_ms, header.max_timestamp_ms
    if part.rows < header.record_count and "timestamp" in columns and header.columns & TIMESTAMP.bit:
        stamps = numbers_of(frame, TIMESTAMP)[part.first : part.stop]
        times = int(stamps.min()), int(stamps.max())
    return FrameSummary(part.rows, header.priority, header.append_time_ms, offsets, times)


def _batch(slice_: Slice, frames: Sequence[FrameSummary], columns: Sequence[str]) -> pa.RecordBatch:
    """The first row of a frame has the messages, a second one only values."""
    each = 1 if _DIFFER.isdisjoint(columns) else 2
    counts = np.zeros(len(frames) * each, np.int64)
    counts[::each] = [frame.messages for frame in frames]
    arrays = [_column(name, slice_, frames, each) for name in columns]
    return pa.RecordBatch.from_arrays([*arrays, number_column(counts, pa.int64())], [*columns, SUMMARY_COLUMN[0]])


def _column(name: str, slice_: Slice, frames: Sequence[FrameSummary], each: int) -> pa.Array:
    count = len(frames) * each
    match name:
        case "topic":
            return repeated(slice_.topic, count)
        case "partition":
            return repeated(slice_.partition, count)
        case "priority":
            levels = [(level, len(list(run))) for level, run in groupby(frame.priority for frame in frames)]
            return pa.concat_arrays([repeated(NAMES[level], length * each) for level, length in levels])
        case "append_time":
            return _numbers([frame.append_ms * 1000 for frame in frames for _ in range(each)], TIME)
        case "offset":
            return _numbers([offset for frame in frames for offset in frame.offsets], pa.int64())
        case "timestamp":
            return _numbers([time_ms * 1000 for frame in frames for time_ms in frame.timestamps_ms], TIME)
    raise AssertionError(f"summaries have no column {name}")


def _numbers(values: Sequence[int], kind: pa.DataType) -> pa.Array:
    return number_column(np.array(values, np.int64), kind)
