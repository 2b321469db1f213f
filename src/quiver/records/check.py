"""The entry check: a frame is checked completely, once, when it comes in. Every reader can safely open what
passes."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from quiver.model.errors import FrameTooLarge, InvalidFrame, InvalidRequest, MessageTooLarge
from quiver.model.limits import Limits
from quiver.records.arrow_arrays import to_numbers
from quiver.records.body import check_readable, open_body
from quiver.records.columns import (
    DELIVER_AT,
    EXPIRES_AT,
    HEADERS,
    ID,
    KEY,
    MAX_TIMESTAMP_MS,
    TIMESTAMP,
    VALUE,
    Layout,
    layout_for,
)
from quiver.records.header import (
    ALIGNMENT,
    COLUMN_OFFSET_DELTA,
    CONTROL,
    HEADER_BYTES,
    NO_PRODUCER,
    FrameHeader,
    body_crc,
    unpack_header,
)
from quiver.records.single import is_single_body

_LOWEST_PRIORITY = 4
KEY_NEEDED = "the topic is compacted, so every message needs a key"


def check_frame(
    frame: bytes | bytearray | memoryview,
    limits: Limits,
    *,
    max_message_bytes: int | None = None,
    allow_control: bool = False,
    needs_keys: bool = False,
) -> FrameHeader:
    """The header of a producer's frame, after every check. Raises InvalidFrame, FrameTooLarge or MessageTooLarge.

    `max_message_bytes` is the topic's limit and replaces the general one; with `needs_keys` a message
    without a key is an InvalidRequest. Nothing larger than `limits.frame_bytes` is allocated, and nothing at all
    before the checksum has matched.
    """
    size = len(frame)
    if size > limits.frame_bytes:
        raise FrameTooLarge(size=size, limit=limits.frame_bytes)
    header = unpack_header(frame)
    if header.length != size - HEADER_BYTES:
        raise InvalidFrame(problem=f"its header says {header.length} bytes of body, there are {size - HEADER_BYTES}")
    view = memoryview(frame)
    body = view[HEADER_BYTES:]
    if body_crc(view, body) != header.body_crc:
        raise InvalidFrame(problem="the body checksum does not match")
    check_readable(header, limits)
    _check_fields(header, allow_control)
    if header.length % ALIGNMENT or ((padding := header.padding) and any(body[-padding:])):
        raise InvalidFrame(problem=f"it is not padded with zeros to {ALIGNMENT} bytes")
    most = limits.message_bytes if max_message_bytes is None else max_message_bytes
    is_plain = header.record_count == 1 and header.min_timestamp_ms == header.max_timestamp_ms and not needs_keys
    if is_plain and header.uncompressed_length <= most and is_single_body(body, header):
        return header  # most messages that come one by one: opening them takes Arrow as long as all other checks
    batch = open_body(body, header)
    layout = layout_for(header.columns)
    if needs_keys:
        _check_keys(batch, header, layout)
    _check_times(batch, header, layout)
    # The buffers of a body do not overlap, so no message is larger than the body.
    if header.uncompressed_length > most:
        _check_message_sizes(batch, layout, most)
    return header


def _check_fields(header: FrameHeader, allow_control: bool) -> None:
    if header.priority > _LOWEST_PRIORITY:
        raise InvalidFrame(problem=f"priority {header.priority} is not one of 0 to {_LOWEST_PRIORITY}")
    if header.base_offset or header.leader_epoch or header.append_time_ms or header.header_crc:
        raise InvalidFrame(problem="the fields that the broker stamps must be zero")
    if header.record_count == 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidFrame(
            problem="it needs at least one message, and a last offset delta of one less than their count"
        )
    if header.columns & COLUMN_OFFSET_DELTA:
        raise InvalidFrame(problem="only compaction writes offset deltas")
    if header.attributes & CONTROL and not allow_control:
        raise InvalidFrame(problem="only the broker writes control frames")
    if header.producer_id == NO_PRODUCER:
        if header.producer_epoch != -1 or header.base_sequence != -1 or header.is_transactional:
            raise InvalidFrame(problem="epoch, sequence and transaction need a producer id")
    elif header.producer_id < 0 or header.producer_epoch < 0 or header.base_sequence < 0:
        raise InvalidFrame(problem="producer id, epoch and sequence must not be negative")
    if not 0 <= header.min_timestamp_ms <= header.max_timestamp_ms <= MAX_TIMESTAMP_MS:
        raise InvalidFrame(problem="the timestamps are not in order, or not within the years 1970 to 9999")


def _check_keys(batch: pa.RecordBatch, header: FrameHeader, layout: Layout) -> None:
    if not header.columns & KEY.bit or batch.column(layout.place(KEY)).null_count:
        raise InvalidRequest(problem=KEY_NEEDED)


def _check_times(batch: pa.RecordBatch, header: FrameHeader, layout: Layout) -> None:
    low, high = header.min_timestamp_ms, header.max_timestamp_ms
    if header.columns & TIMESTAMP.bit:
        times = to_numbers(batch.column(layout.place(TIMESTAMP)))
        if np.minimum.reduce(times) != low or np.maximum.reduce(times) != high:
            raise InvalidFrame(problem="min and max timestamp are not those of the messages")
    elif low != high:
        raise InvalidFrame(problem="without a timestamp column, min and max timestamp must be the same")
    for column in (DELIVER_AT, EXPIRES_AT):
        if header.columns & column.bit:
            times = to_numbers(batch.column(layout.place(column)).drop_null())
            if len(times) and (times.min() < 0 or times.max() > MAX_TIMESTAMP_MS):
                raise InvalidFrame(problem=f"{column.field.name} is not within the years 1970 to 9999")


def _check_message_sizes(batch: pa.RecordBatch, layout: Layout, most: int) -> None:
    columns = [batch.column(layout.place(column)) for column in (VALUE, KEY, ID) if column in layout.columns]
    lengths = [np.diff(_offsets(column)) for column in columns]
    headers = batch.column(layout.place(HEADERS)) if HEADERS in layout.columns else None
    bound = sum(int(np.maximum.reduce(each)) for each in lengths)
    if headers is not None:
        bound += int(_offsets(headers.keys)[-1]) + int(_offsets(headers.items)[-1])
    if bound <= most:
        return  # as for most frames: no message can be larger
    sizes = np.add.reduce(lengths, dtype=np.int64)
    if headers is not None:
        rows = _offsets(headers)
        sizes += np.diff(_offsets(headers.keys)[rows]) + np.diff(_offsets(headers.items)[rows])
    largest = int(sizes.max())
    if largest > most:
        raise MessageTooLarge(size=largest, limit=most)


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where the items of a binary or map array begin and end, as read from a batch (so it is no slice)."""
    if len(array) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1)
