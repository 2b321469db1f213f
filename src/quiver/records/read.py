"""Reading frames: as Python objects or as Arrow, without copying."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from quiver.model.errors import InvalidFrame
from quiver.model.limits import Limits
from quiver.records.arrow_arrays import number_array, to_numbers
from quiver.records.body import check_readable, open_body
from quiver.records.columns import (
    DELIVER_AT,
    EXPIRES_AT,
    HEADERS,
    ID,
    KEY,
    OFFSET_DELTA,
    TIMESTAMP,
    VALUE,
    Column,
    layout_for,
)
from quiver.records.header import HEADER_BYTES, FrameHeader, body_crc, read_stamped_header, unpack_header

ARROW_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        TIMESTAMP.field,
        KEY.field,
        VALUE.field,
        HEADERS.field,
    ]
)
"""The schema of `OpenFrame.to_arrow`, whatever columns the frame has."""

_DEFAULT_LIMITS = Limits()


class OpenFrame:
    """A frame opened in place: its Arrow buffers are the caller's bytes, which stay alive as long as it does."""

    __slots__ = ("batch", "header")

    def __init__(self, header: FrameHeader, batch: pa.RecordBatch) -> None:
        self.header = header
        self.batch = batch

    def __len__(self) -> int:
        return self.header.record_count

    def values(self) -> list[bytes | None]:
        """None is a tombstone."""
        return self._list(VALUE)

    def keys(self) -> list[bytes | None]:
        return self._list(KEY)

    def ids(self) -> list[bytes | None]:
        return self._list(ID)

    def deliver_at_ms(self) -> list[int | None]:
        return self._list(DELIVER_AT)

    def expires_at_ms(self) -> list[int | None]:
        return self._list(EXPIRES_AT)

    def timestamps(self) -> list[int]:
        times = self.column(TIMESTAMP)
        if times is None:
            return [self.header.min_timestamp_ms] * self.header.record_count
        return times.to_pylist()  # type: ignore[no-any-return]

    def headers(self) -> list[dict[str, bytes]]:
        """A dict per message, empty if it has no headers; if a name occurs twice, the last value."""
        column = self.column(HEADERS)
        if column is None:
            return [{} for _ in range(self.header.record_count)]
        names, values = column.keys.to_pylist(), column.items.to_pylist()
        ends = column.offsets.to_pylist()
        found = [dict(zip(names[a:b], values[a:b], strict=True)) for a, b in pairwise(ends)]
        if column.null_count:
            return [row if there else {} for row, there in zip(found, column.is_valid().to_pylist(), strict=True)]
        return found

    def offsets(self) -> range | list[int]:
        base = self.header.base_offset
        deltas = self.column(OFFSET_DELTA)
        if deltas is None:
            return range(base, base + self.header.record_count)
        return [base + delta for delta in deltas.to_pylist()]

    def column(self, column: Column) -> pa.Array | None:
        """The Arrow array of a column; None if the frame does not have it."""
        if column.bit and not self.header.columns & column.bit:
            return None
        return self.batch.column(layout_for(self.header.columns).place(column))

    def to_arrow(self) -> pa.RecordBatch:
        """The messages with the columns of ARROW_SCHEMA; absent keys and headers are nulls. Values are not copied."""
        header = self.header
        count = header.record_count
        deltas = self.column(OFFSET_DELTA)
        steps = np.arange(count) if deltas is None else to_numbers(deltas)
        times = self.column(TIMESTAMP)
        if times is None:
            times = number_array(np.full(count, header.min_timestamp_ms, np.int64))
        return pa.RecordBatch.from_arrays(
            [
                number_array(steps + np.int64(header.base_offset)),
                times,
                self._column_or_nulls(KEY),
                self.column(VALUE),
                self._column_or_nulls(HEADERS),
            ],
            schema=ARROW_SCHEMA,
        )

    def _list(self, column: Column) -> list[Any]:
        found = self.column(column)
        return [None] * self.header.record_count if found is None else found.to_pylist()

    def _column_or_nulls(self, column: Column) -> pa.Array:
        found = self.column(column)
        return pa.nulls(self.header.record_count, column.field.type) if found is None else found


def open_frame(
    buffer: bytes | bytearray | memoryview,
    position: int = 0,
    *,
    verify: bool = True,
    limits: Limits = _DEFAULT_LIMITS,
    header: FrameHeader | None = None,
) -> OpenFrame:
    """Opens the stored frame at a position. Raises InvalidFrame if it is damaged or cut off.

    `verify` checks both checksums and that the body is sound, so that no bytes can crash the reader. Without it the
    frame must have been checked before; that is also the way to open a frame that no broker has stamped yet.
    `limits` bound what decompression allocates. `header` is for callers that have read it there, with its checksum.
    """
    if header is None:
        header = read_stamped_header(buffer, position) if verify else unpack_header(buffer, position)
    view = memoryview(buffer)[position : position + header.frame_bytes]
    if len(view) < header.frame_bytes:
        raise InvalidFrame(problem=f"{header.frame_bytes - len(view)} bytes of it are missing")
    body = view[HEADER_BYTES:]
    if verify:
        check_body(view, header)
    check_readable(header, limits)
    return OpenFrame(header, open_body(body, header, trusted=not verify))


def check_body(frame: bytes | memoryview, header: FrameHeader) -> None:
    """InvalidFrame if the body of a stored frame is damaged.

    The broker stores sound frames only, so the checksum says whether a frame still is sound.
    """
    if body_crc(frame, memoryview(frame)[HEADER_BYTES:]) != header.body_crc:
        raise InvalidFrame(problem="the body checksum does not match")


def split_frames(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[int, FrameHeader]]:
    """Position and header of each whole stored frame; InvalidFrame at a bad header.

    A last frame that is cut off is left out.
    """
    position, end = 0, len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_stamped_header(buffer, position)
        following = position + header.frame_bytes
        if following > end:
            return
        yield position, header
        position = following


def split_headers(buffer: bytes | bytearray | memoryview) -> Iterator[tuple[int, FrameHeader]]:
    """Position and header of each frame in a buffer of headers without bodies; InvalidFrame at a bad one."""
    for position in range(0, len(buffer), HEADER_BYTES):
        yield position, read_stamped_header(buffer, position)
