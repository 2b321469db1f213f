"""Finds the messages of a frame that have the header of a trace, in the bytes of the frame's body. Pure."""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quiver.records.body import uncompressed
from quiver.records.columns import HEADERS, KEY, OFFSET_DELTA, TIMESTAMP, Column, layout_for
from quiver.records.header import HEADER_BYTES, FrameHeader
from quiver.records.message_check import message_numbers
from quiver.records.read import check_body
from quiver.records.traced.column import PARENT_BYTES
from quiver.records.traced.entries import BinaryBuffers, are_traces_only, trace_entries

_KEY_SHOWN = 200
_ENDS, _NAMES, _CONTENTS = 1, 3, 6
"""Places among the buffers of the headers."""


class SampledRows(NamedTuple):
    """Messages of one frame that have the header; what it says is not looked at yet."""

    header: FrameHeader
    offsets: npt.NDArray[np.int64]
    parents: bytes
    """55 bytes of each."""
    timestamps_ms: npt.NDArray[np.int64] | None
    """None if all have that of the frame's header."""
    keys: list[str] | None


class _Places(NamedTuple):
    """The first buffers of columns, and the first array of the headers; -1 for a column that is not there."""

    headers: int
    headers_node: int
    key: int
    timestamp: int
    offset_delta: int


@cache
def _places(columns: int) -> _Places:
    layout = layout_for(columns)

    def buffer_of(column: Column) -> int:
        return layout.buffer_of(column) if column in layout.columns else -1

    node = layout.node_of(HEADERS) if HEADERS in layout.columns else -1
    return _Places(buffer_of(HEADERS), node, buffer_of(KEY), buffer_of(TIMESTAMP), buffer_of(OFFSET_DELTA))


class FrameBody:
    """The buffers of a frame's Arrow message, which was checked when the frame came: not compressed, not padded."""

    __slots__ = ("_message", "_numbers", "_places", "header")

    def __init__(self, message: memoryview, header: FrameHeader) -> None:
        self.header = header
        self._message = message
        self._numbers = message_numbers(message, header.columns)
        self._places = _places(header.columns)

    @property
    def headers_size(self) -> int:
        """The bytes of all headers."""
        first = 2 * self._places.headers
        return 0 if first < 0 else sum(self._numbers.buffers[first + 1 : first + 2 * HEADERS.buffers : 2])

    def sampled_rows(self) -> SampledRows | None:
        """None if no message has the header."""
        places, count = self._places, self.header.record_count
        if places.headers < 0:
            return None
        entry_count = self._numbers.nodes[2 * places.headers_node + 2]
        ends = self._ends(places.headers + _ENDS, count)
        names = self._binary(places.headers + _NAMES, entry_count)
        contents = self._binary(places.headers + _CONTENTS, entry_count)
        entries: npt.NDArray[np.int32] | npt.NDArray[np.int64]
        if are_traces_only(names, contents):
            entries, parents = np.arange(entry_count, dtype=np.int32), bytes(contents.data)
        else:
            entries, parents = trace_entries(names, contents)
        if not parents:
            return None
        rows = ends.searchsorted(entries, "right") - 1
        if self._numbers.nodes[2 * places.headers_node + 1] or ends[0] or ends[-1] < entry_count:
            rows, parents = self._present(rows, parents)
        return SampledRows(
            self.header,
            self.header.base_offset + self._deltas(rows),
            parents,
            None if places.timestamp < 0 else np.frombuffer(self._buffer(places.timestamp + 1), np.int64)[rows],
            None if places.key < 0 else _texts(self._binary(places.key, count), rows),
        )

    def _present(self, rows: npt.NDArray[np.int64], parents: bytes) -> tuple[npt.NDArray[np.int64], bytes]:
        """Without headers of no message, and of messages whose headers are null: Arrow allows both."""
        count = self.header.record_count
        keep = (rows >= 0) & (rows < count)
        validity = self._buffer(self._places.headers)
        if len(validity):
            valid = np.unpackbits(np.frombuffer(validity, np.uint8), count=count, bitorder="little").view(np.bool_)
            keep[keep] = valid[rows[keep]]
        return rows[keep], np.frombuffer(parents, np.uint8).reshape(-1, PARENT_BYTES)[keep].tobytes()

    def _deltas(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        place = self._places.offset_delta
        return rows if place < 0 else np.frombuffer(self._buffer(place + 1), np.int32)[rows].astype(np.int64)

    def _buffer(self, number: int) -> memoryview:
        start = self._numbers.body_position + self._numbers.buffers[2 * number]
        return self._message[start : start + self._numbers.buffers[2 * number + 1]]

    def _ends(self, number: int, count: int) -> npt.NDArray[np.int32]:
        buffer = self._buffer(number)
        return np.frombuffer(buffer, np.int32, count + 1) if len(buffer) else np.zeros(1, np.int32)

    def _binary(self, first: int, count: int) -> BinaryBuffers:
        """A column whose buffers begin with its validity."""
        return BinaryBuffers(self._ends(first + 1, count), self._buffer(first + 2))


def stored_rows(data: bytes | memoryview, position: int, header: FrameHeader) -> SampledRows:
    """Those of a frame in a slice of the log; empty if there are none."""
    frame = memoryview(data)[position : position + header.frame_bytes]
    check_body(frame, header)
    found = FrameBody(uncompressed(frame[HEADER_BYTES:], header), header).sampled_rows()
    return found or SampledRows(header, np.empty(0, np.int64), b"", None, None)


def _texts(column: BinaryBuffers, rows: npt.NDArray[np.int64]) -> list[str]:
    """The keys as they are shown; empty for what is no text."""
    found: list[str] = []
    starts, ends = column.ends[rows].tolist(), column.ends[rows + 1].tolist()
    for start, end in zip(starts, ends, strict=True):
        try:
            found.append(str(column.data[start : min(end, start + _KEY_SHOWN)], "utf-8"))
        except UnicodeDecodeError:
            found.append("")
    return found
