"""A stored frame on its way to consumers: checked once, cut as often as needed."""

from typing import Any

import numpy as np
import numpy.typing as npt

from quiver.queues.state.port import Run, StoredRun
from quiver.records.build import seal
from quiver.records.columns import HEADERS, ID, KEY, OFFSET_DELTA, TIMESTAMP, VALUE, Arrays, layout_for
from quiver.records.expiry import may_be_past, past_rows
from quiver.records.header import HEADER_BYTES, FrameHeader, stamp, unpack_header
from quiver.records.read import OpenFrame, open_frame

_ROW_BYTES = 16
"""About what a message takes in a frame beside its contents."""
_FRAME_BYTES = HEADER_BYTES + 512


class StoredFrame:
    """The bytes as the log has them. InvalidFrame comes from whatever opens a frame that is damaged."""

    __slots__ = ("_deltas", "_opened", "_sizes", "data", "header")

    def __init__(self, header: FrameHeader, data: bytes | memoryview) -> None:
        self.header = header
        self.data = data
        self._opened: OpenFrame | None = None
        self._deltas: npt.NDArray[np.int32] | None = None
        self._sizes: npt.NDArray[np.int64] | None = None

    @property
    def start(self) -> int:
        return self.header.base_offset

    @property
    def end(self) -> int:
        return self.header.next_offset

    def opened(self) -> OpenFrame:
        if self._opened is None:
            self._opened = open_frame(self.data)
        return self._opened

    def runs(self) -> list[Run]:
        """The offsets of its messages. Only a frame that was compacted has to be opened for it."""
        return [] if self.header.is_control else self.stored(self.start, self.end)

    def stored(self, start: int, end: int) -> list[Run]:
        """Which of these offsets, all in its range, it has messages at; compaction leaves holes."""
        if not self.header.columns & OFFSET_DELTA.bit:
            return [(start, end)]
        deltas = self._offset_deltas()[self._row(start) : self._row(end)]
        if not len(deltas):
            return []
        breaks = np.flatnonzero(np.diff(deltas) != 1) + 1
        firsts, lasts = deltas[np.append(0, breaks)], deltas[np.append(breaks - 1, len(deltas) - 1)]
        base = self.header.base_offset
        return [(base + int(first), base + int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]

    def pieces(self, offset: int, *, with_keys: bool) -> list[StoredRun]:
        """Its messages from an offset on, as a group is fed with them."""
        level = self.header.priority
        found = [(max(start, offset), end) for start, end in self.runs() if end > offset]
        if not with_keys:
            return [StoredRun(start, end, level) for start, end in found]
        keys = self.opened().keys()
        return [StoredRun(start, end, level, keys[self._row(start) : self._row(end)]) for start, end in found]

    def expired(self, start: int, end: int, now_ms: int, ttl_ms: int | None) -> list[Run]:
        """Which of these messages, without a hole between them, are past their time."""
        if not may_be_past(self.header, now_ms, ttl_ms):
            return []
        past = past_rows(self.opened(), now_ms, ttl_ms)
        if past is None:
            return []
        row = self._row(start)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], past[row : row + end - start], [False]))))
        return [(start + int(a), start + int(b)) for a, b in edges.reshape(-1, 2)]

    def fitting(self, start: int, end: int, max_bytes: int) -> int:
        """Where to stop so that the messages from `start` on take about `max_bytes` at most; `start`: none fits."""
        if len(self.data) <= max_bytes and self._is_whole(start, end):
            return end
        if not self.header.compression and len(self.data) + _FRAME_BYTES <= max_bytes:
            return end  # a part takes no more than the whole
        if self._sizes is None:
            self._sizes = _row_ends(self.opened())
        first, last = self._row(start), self._row(end)
        limit = self._sizes[first] + max_bytes - _FRAME_BYTES
        return start + max(0, int(np.searchsorted(self._sizes[first : last + 1], limit, side="right")) - 1)

    def cut(self, start: int, end: int) -> bytes | memoryview:
        """A stamped frame with these messages, without a hole between them: the stored one when it is just that."""
        opened = self.opened()
        if self._is_whole(start, end):
            return self.data
        header = self.header
        row, count = self._row(start), end - start
        layout = layout_for(header.columns)
        columns = [column for column in layout.columns if column is not OFFSET_DELTA]
        rows = opened.batch.slice(row, count)
        arrays: Arrays = {column.bit: rows.column(layout.place(column)) for column in columns}
        low, high = header.min_timestamp_ms, header.max_timestamp_ms
        if TIMESTAMP.bit in arrays:
            times = arrays[TIMESTAMP.bit].to_numpy()
            low, high = int(times.min()), int(times.max())
        frame = seal(arrays, low, high, priority=header.priority, schema_id=header.schema_id)
        stamped = stamp(
            frame,
            unpack_header(frame),
            base_offset=start,
            leader_epoch=header.leader_epoch,
            append_time_ms=header.append_time_ms,
        )
        return b"".join((stamped.header_bytes, stamped.body))

    def _is_whole(self, start: int, end: int) -> bool:
        return start == self.start and end == self.end and end - start == self.header.record_count

    def _row(self, offset: int) -> int:
        """The row of the first message at or behind an offset."""
        delta = offset - self.header.base_offset
        if not self.header.columns & OFFSET_DELTA.bit:
            return min(delta, self.header.record_count)
        return int(np.searchsorted(self._offset_deltas(), delta))

    def _offset_deltas(self) -> npt.NDArray[np.int32]:
        if self._deltas is None:
            self._deltas = self.opened().column(OFFSET_DELTA).to_numpy()  # type: ignore[union-attr]
        return self._deltas


def _row_ends(frame: OpenFrame) -> npt.NDArray[np.int64]:
    """How many bytes the first n messages take, for every n."""
    ends = np.arange(len(frame) + 1, dtype=np.int64) * _ROW_BYTES
    for column in (VALUE, KEY, ID):
        array = frame.column(column)
        if array is not None:
            ends += _offsets(array)
    headers = frame.column(HEADERS)
    if headers is not None:
        rows = _offsets(headers)
        ends += (_offsets(headers.keys) + _offsets(headers.items))[rows] + rows * _ROW_BYTES
    return ends


def _offsets(array: Any) -> npt.NDArray[np.int64]:
    """Where the items of a binary or map array begin and end, as read from a batch (so it is no slice)."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1).astype(np.int64)
