"""The last step of building a frame: columns become a body, and the body gets its header and checksum."""

import struct
from typing import TypedDict

import pyarrow as pa

from quiver.model.errors import FrameTooLarge, InvalidRequest
from quiver.records.columns import MAX_TIMESTAMP_MS, layout_for
from quiver.records.compression import compress, compression_code
from quiver.records.header import (
    ALIGNMENT,
    COMPRESSION_NONE,
    CONTROL,
    NO_PRODUCER,
    PADDING_SHIFT,
    TRANSACTIONAL,
    FrameHeader,
    body_crc,
    pack_header,
)

Arrays = dict[int, pa.Array]
"""The columns of a body by their header bit (0 is `value`)."""

_CRC = struct.Struct("<I")
_CRC_POSITION = 4
_MAX_BODY_BYTES = 2**31 - ALIGNMENT
_LOWEST_PRIORITY = 4


class FrameOptions(TypedDict, total=False):
    """What holds for a frame as a whole."""

    priority: int
    compression: str
    producer_id: int
    producer_epoch: int
    base_sequence: int
    schema_id: int
    transactional: bool
    control: bool


def seal(
    arrays: Arrays,
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
) -> bytes:
    """A producer's frame of these columns; the fields that the broker stamps are zero.

    `last_offset_delta` is for frames that lost messages, and so have an offset_delta column.
    """
    if not 0 <= priority <= _LOWEST_PRIORITY:
        raise InvalidRequest(problem=f"priority {priority} is not one of 0 to {_LOWEST_PRIORITY}")
    if not 0 <= min_timestamp_ms <= max_timestamp_ms <= MAX_TIMESTAMP_MS:
        raise InvalidRequest(problem="timestamps must be epoch milliseconds within the years 1970 to 9999")
    columns = sum(arrays)
    batch = _batch(arrays, columns)
    message = batch.serialize()
    if message.size > _MAX_BODY_BYTES:
        raise FrameTooLarge(size=message.size, limit=_MAX_BODY_BYTES)
    code = compression_code(compression)
    body = message if code == COMPRESSION_NONE else compress(message, code)
    padding = -body.size % ALIGNMENT
    attributes = code | padding << PADDING_SHIFT
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    return _joined(
        FrameHeader(
            priority=priority,
            body_crc=0,
            base_offset=0,
            leader_epoch=0,
            header_crc=0,
            append_time_ms=0,
            length=body.size + padding,
            uncompressed_length=message.size,
            record_count=batch.num_rows,
            last_offset_delta=batch.num_rows - 1 if last_offset_delta is None else last_offset_delta,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            min_timestamp_ms=min_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms,
            schema_id=schema_id,
            attributes=attributes,
            columns=columns,
        ),
        body,
        padding,
    )


def _batch(arrays: Arrays, columns: int) -> pa.RecordBatch:
    layout = layout_for(columns)
    try:
        return pa.RecordBatch.from_arrays([arrays[column.bit] for column in layout.columns], schema=layout.schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidRequest(problem=f"the columns do not fit together ({error})") from error


def _joined(header: FrameHeader, body: pa.Buffer, padding: int) -> bytes:
    try:
        packed = pack_header(header)
    except struct.error as error:
        raise InvalidRequest(problem=f"a number does not fit its field in the frame header ({error})") from error
    stored = memoryview(body) if not padding else b"".join((body, bytes(padding)))
    _CRC.pack_into(packed, _CRC_POSITION, body_crc(packed, stored))
    return b"".join((packed, stored))
