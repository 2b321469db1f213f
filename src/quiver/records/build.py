"""Building frames: from lists, from one message, from Arrow."""

import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, TypedDict, Unpack

import pyarrow as pa

from quiver.model.errors import FrameTooLarge, InvalidRequest
from quiver.records.arrow_input import arrow_columns
from quiver.records.columns import (
    DELIVER_AT,
    EXPIRES_AT,
    HEADERS,
    HEADERS_TYPE,
    ID,
    KEY,
    MAX_TIMESTAMP_MS,
    TIMESTAMP,
    VALUE,
    Column,
    layout_for,
)
from quiver.records.compression import compress, compression_code
from quiver.records.header import (
    ALIGNMENT,
    COMPRESSION_NONE,
    CONTROL,
    HEADER_BYTES,
    NO_PRODUCER,
    PADDING_SHIFT,
    TRANSACTIONAL,
    FrameHeader,
    body_crc,
    pack_header,
)

_CRC = struct.Struct("<I")
_CRC_POSITION = 4
_MAX_BODY_BYTES = 2**31 - 1
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


def build_frame(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int | None = None,
    timestamps_ms: Sequence[int] | None = None,
    headers: Sequence[Mapping[str, bytes] | None] | None = None,
    deliver_at_ms: Sequence[int | None] | None = None,
    expires_at_ms: Sequence[int | None] | None = None,
    ids: Sequence[bytes | None] | None = None,
    **options: Unpack[FrameOptions],
) -> bytes:
    """A producer's frame, one message a value; a value of None is a tombstone.

    Either `timestamp_ms`, one for all, or `timestamps_ms` is needed. Columns that are None throughout take no room.
    InvalidRequest says what does not fit. The limits of the broker are checked there, by `check_frame`.
    """
    count = len(values)
    columns = [(VALUE, _array(VALUE, values, count))]
    low, high = _add_timestamps(columns, timestamp_ms, timestamps_ms, count)
    if keys is not None:
        _add(columns, KEY, keys, count)
    if headers is not None:
        _add_headers(columns, headers, count)
    if deliver_at_ms is not None:
        _add(columns, DELIVER_AT, deliver_at_ms, count)
    if expires_at_ms is not None:
        _add(columns, EXPIRES_AT, expires_at_ms, count)
    if ids is not None:
        _add(columns, ID, ids, count)
    return _seal(columns, low, high, **options)


def build_frame_from_arrow(
    batch: pa.RecordBatch | pa.Table, *, timestamp_ms: int, **options: Unpack[FrameOptions]
) -> bytes:
    """A producer's frame from Arrow columns: `value`, and if there `key`, `timestamp`, `headers`.

    `timestamp_ms` is for rows without a timestamp. InvalidRequest names a column that is missing, unknown or of a type
    that does not fit.
    """
    columns = arrow_columns(batch, timestamp_ms)
    return _seal(*columns, **options)
