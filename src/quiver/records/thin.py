"""Removes messages from a stored frame; the others keep their offsets."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.records.arrow_arrays import mask_array, number_array, to_numbers
from quiver.records.build import seal
from quiver.records.columns import DELIVER_AT, EXPIRES_AT, ID, KEY, OFFSET_DELTA, TIMESTAMP, Arrays, layout_for
from quiver.records.header import COMPRESSION_NAMES, FrameHeader, StampedFrame, stamp, unpack_header

Deltas = npt.NDArray[np.int32]
_SEQUENCES = 2**31
_LEFT_OUT_WHEN_EMPTY = (KEY, DELIVER_AT, EXPIRES_AT, ID)


def offset_deltas(header: FrameHeader, batch: pa.RecordBatch) -> Deltas:
    """The distance of each message from the frame's base offset."""
    if not header.columns & OFFSET_DELTA.bit:
        return np.arange(header.record_count, dtype=np.int32)
    deltas: Deltas = to_numbers(batch.column(layout_for(header.columns).place(OFFSET_DELTA)))
    return deltas


def thin_frame(
    header: FrameHeader, batch: pa.RecordBatch, kept: npt.NDArray[np.bool_], *, max_bytes: int
) -> list[StampedFrame]:
    """The frame with only the `kept` messages: some, but not all.

    Only the number of messages and the range of their timestamps change; the range of offsets stays. A plain body is
    compressed if that makes it smaller: it will not be rewritten often. The offsets are now stored and take space, so
    a frame near `max_bytes` may become two.
    """
    deltas = offset_deltas(header, batch)[kept]
    rows = batch.filter(mask_array(kept))
    return _frames(header, rows, deltas, first=0, last=header.last_offset_delta, max_bytes=max_bytes)


def _frames(
    header: FrameHeader, rows: pa.RecordBatch, deltas: Deltas, *, first: int, last: int, max_bytes: int
) -> list[StampedFrame]:
    """Frames for the offsets from `first` to `last` after the base offset of the old one."""
    frame = _sealed(header, rows, deltas - np.int32(first), first=first, last=last)
    if unpack_header(frame).uncompressed_length > max_bytes and len(deltas) > 1:
        middle = len(deltas) // 2
        begin = int(deltas[middle])
        return [
            *_frames(header, rows[:middle], deltas[:middle], first=first, last=begin - 1, max_bytes=max_bytes),
            *_frames(header, rows[middle:], deltas[middle:], first=begin, last=last, max_bytes=max_bytes),
        ]
    stamped = stamp(
        frame,
        unpack_header(frame),
        base_offset=header.base_offset + first,
        leader_epoch=header.leader_epoch,
        append_time_ms=header.append_time_ms,
    )
    return [stamped]


def _sealed(header: FrameHeader, rows: pa.RecordBatch, deltas: Deltas, *, first: int, last: int) -> bytearray:
    arrays = _arrays(header, rows)
    arrays[OFFSET_DELTA.bit] = number_array(deltas)
    low, high = header.min_timestamp_ms, header.max_timestamp_ms
    if TIMESTAMP.bit in arrays:
        times = to_numbers(arrays[TIMESTAMP.bit])
        low, high = int(times.min()), int(times.max())
        if low == high:
            del arrays[TIMESTAMP.bit]

    def sealed(compression: str) -> bytearray:
        return seal(
            arrays,
            low,
            high,
            priority=header.priority,
            compression=compression,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=-1 if header.base_sequence < 0 else (header.base_sequence + first) % _SEQUENCES,
            schema_id=header.schema_id,
            transactional=header.is_transactional,
            last_offset_delta=last - first,
        )

    if header.compression:
        return sealed(COMPRESSION_NAMES[header.compression])
    frame = sealed("zstd")
    return frame if unpack_header(frame).length < unpack_header(frame).uncompressed_length else sealed("none")


def _arrays(header: FrameHeader, rows: pa.RecordBatch) -> Arrays:
    columns = [column for column in layout_for(header.columns).columns if column is not OFFSET_DELTA]
    arrays: Arrays = {column.bit: rows.column(column.field.name) for column in columns}
    for column in _LEFT_OUT_WHEN_EMPTY:
        array = arrays.get(column.bit)
        if array is not None and array.null_count == len(array):
            del arrays[column.bit]
    return arrays
