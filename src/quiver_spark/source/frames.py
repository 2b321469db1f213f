"""From a slice to Arrow batches: through the broker, or from segment files."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from quiver.model.errors import InvalidFrame
from quiver.model.limits import MIB
from quiver.reader.stored_frame import StoredFrame
from quiver.records.header import HEADER_BYTES, FrameHeader, body_crc
from quiver.records.read import OpenFrame, open_frame
from quiver_spark.source.columns import (
    COLUMNS,
    BatchBuilder,
    FrameRows,
    may_need_no_body,
    needs_body,
    rows_between,
)
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice
from quiver_spark.source.unreadable import corrupt

BATCH_ROWS = 32_768
MAX_BATCH_ROWS = 65_536
BATCH_BYTES = 16 * MIB


def read_slice(slice_: Slice, options: ReadOptions, columns: Sequence[str] = COLUMNS) -> Iterator[pa.RecordBatch]:
    """The messages of a slice in batches of some ten thousand rows with the asked-for columns, in order of offset."""
    builder = BatchBuilder(slice_, columns)
    for parts in _gathered(slice_, options, columns):
        batch = builder.batch(parts)
        if batch.num_rows:
            yield batch


def stored_frames(
    slice_: Slice, options: ReadOptions, wants_body: Callable[[FrameHeader], bool] | None = None
) -> Iterator[StoredFrame]:
    """Every frame with messages of a slice for readers, in order. Bodies that are not wanted may be missing."""
    if options.path is not None:
        from quiver_spark.direct.frames import direct_frames

        return direct_frames(slice_, options, wants_body or (lambda header: True))
    if slice_.files is not None or slice_.replicas:
        from quiver_spark.direct.broker_files import local_frames, log_of_broker
        from quiver_spark.direct.replica_files import log_of_replica

        log = log_of_broker(slice_) or log_of_replica(slice_, options)
        if log is not None:
            return local_frames(slice_, log, options, wants_body)
    from quiver_spark.source.broker_frames import broker_frames

    return broker_frames(slice_, options, wants_body)


def _gathered(slice_: Slice, options: ReadOptions, columns: Sequence[str]) -> Iterator[list[FrameRows]]:
    """Rows of frames, as many at a time as make a batch."""
    parts: list[FrameRows] = []
    rows = size = 0
    wants_body = partial(needs_body, columns=columns) if may_need_no_body(columns) else None
    for stored in stored_frames(slice_, options, wants_body):
        header = stored.header
        frame = opened(slice_, stored) if needs_body(header, columns) else None
        part = rows_between(header, frame, slice_.start, slice_.stop)
        if rows and (rows + part.rows > MAX_BATCH_ROWS or size + header.uncompressed_length > BATCH_BYTES):
            yield parts
            parts, rows, size = [], 0, 0
        for chunk in _chunks(part):
            parts.append(chunk)
            rows += chunk.rows
            size += header.uncompressed_length
            if rows >= BATCH_ROWS:
                yield parts
                parts, rows, size = [], 0, 0
    if parts:
        yield parts


def _chunks(part: FrameRows) -> Iterator[FrameRows]:
    """The rows of a frame in chunks that fit into a batch each."""
    for first in range(part.first, part.stop, MAX_BATCH_ROWS):
        yield part._replace(first=first, stop=min(first + MAX_BATCH_ROWS, part.stop))


def opened(slice_: Slice, stored: StoredFrame) -> OpenFrame:
    """The frame, checked against its body checksum. Raises CorruptData if its bytes are not what the producer sent.

    The broker looked at every byte of it when it came in, so bytes with the right checksum need no other check.
    """
    buffer, position, header = stored
    frame = buffer[position : position + header.frame_bytes]
    try:
        if body_crc(frame, frame[HEADER_BYTES:]) != header.body_crc:
            raise InvalidFrame(problem="the body checksum does not match")
        return open_frame(frame, verify=False)
    except InvalidFrame as error:
        raise corrupt(slice_, error.message, header.next_offset) from None
