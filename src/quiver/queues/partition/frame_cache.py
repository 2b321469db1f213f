"""Stored frames on their way to consumers: read once, cut as often as needed, kept while they are soon needed again.

A frame that is read ahead for one group is delivered to it shortly after, and to other groups.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import KIB, MIB
from quiver.partition.partition import Partition
from quiver.queues.state.port import Run, StoredRun
from quiver.records.arrow_arrays import to_numbers
from quiver.records.build import seal
from quiver.records.columns import EXPIRES_AT, HEADERS, ID, KEY, OFFSET_DELTA, TIMESTAMP, VALUE, Arrays, layout_for
from quiver.records.expiry import may_be_past, past_rows
from quiver.records.header import HEADER_BYTES, FrameHeader, stamp, unpack_header
from quiver.records.read import OpenFrame, check_body, open_frame, split_frames

READ_BYTES = 256 * KIB
_ROW_BYTES = 16
"""About what a message takes in a frame besides its contents."""
_FRAME_BYTES = HEADER_BYTES + 512
_OPENED_FRAME_BYTES = 512
_OPENED_ROW_BYTES = 8
"""What frames and their messages cost in memory besides their bytes, once they are opened."""


class StoredFrame:
    """A frame as it is stored. Whatever opens a damaged one raises InvalidFrame."""

    __slots__ = ("_deltas", "_is_checked", "_opened", "_sizes", "data", "end", "header", "start")

    def __init__(self, header: FrameHeader, data: bytes | memoryview) -> None:
        self.header = header
        self.start, self.end = header.base_offset, header.next_offset
        self.data = data
        self._is_checked = False
        self._opened: OpenFrame | None = None
        self._deltas: npt.NDArray[np.int32] | None = None
        self._sizes: npt.NDArray[np.int64] | None = None

    def check(self) -> None:
        """Called before any of it is delivered: a frame that is delivered whole is not opened."""
        if not self._is_checked:
            check_body(self.data, self.header)
            self._is_checked = True

    def opened(self) -> OpenFrame:
        if self._opened is None:
            self._opened = open_frame(self.data)
        return self._opened

    def runs(self) -> list[Run]:
        """The offsets of its messages. Only a frame that was compacted has to be opened for that."""
        return [] if self.header.is_control else self.stored(self.start, self.end)

    def stored(self, start: int, end: int) -> list[Run]:
        """At which of these offsets, all in its range, it has messages; compaction leaves holes."""
        if not self.header.columns & OFFSET_DELTA.bit:
            return [(start, end)]
        deltas = self._offset_deltas()[self._row(start) : self._row(end)]
        if not len(deltas):
            return []
        breaks = np.flatnonzero(np.diff(deltas) != 1) + 1
        firsts, lasts = deltas[np.append(0, breaks)], deltas[np.append(breaks - 1, len(deltas) - 1)]
        base = self.header.base_offset
        return [(base + int(first), base + int(last) + 1) for first, last in zip(firsts, lasts, strict=True)]

    def stored_runs(self, offset: int, *, with_keys: bool) -> list[StoredRun]:
        """Its messages from an offset on, for `GroupState.feed`."""
        level = self.header.priority
        found = [(max(start, offset), end) for start, end in self.runs() if end > offset]
        if not with_keys:
            return [StoredRun(start, end, level) for start, end in found]
        keys = self.opened().keys()
        return [StoredRun(start, end, level, keys[self._row(start) : self._row(end)]) for start, end in found]

    def expired(self, start: int, end: int, now_ms: int, ttl_ms: int | None) -> list[Run]:
        """Which of these messages, without a hole between them, have expired."""
        never_expire = ttl_ms is None and not self.header.columns & EXPIRES_AT.bit
        if never_expire or not may_be_past(self.header, now_ms, ttl_ms):
            return []
        past = past_rows(self.opened(), now_ms, ttl_ms)
        if past is None:
            return []
        row = self._row(start)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], past[row : row + end - start], [False]))))
        return [(start + int(a), start + int(b)) for a, b in edges.reshape(-1, 2)]

    def fitting(self, start: int, end: int, max_bytes: int) -> int:
        """Where to stop so that the messages from `start` on take about `max_bytes` at most; `start` if none fits."""
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
        """A stamped frame with just these messages, without a hole between them. One that is whole is as stored."""
        if self._is_whole(start, end):
            return self.data
        opened, header = self.opened(), self.header
        row, count = self._row(start), end - start
        layout = layout_for(header.columns)
        columns = [column for column in layout.columns if column is not OFFSET_DELTA]
        rows = opened.batch.slice(row, count)
        arrays: Arrays = {column.bit: rows.column(layout.place(column)) for column in columns}
        low, high = header.min_timestamp_ms, header.max_timestamp_ms
        if TIMESTAMP.bit in arrays:
            times = to_numbers(arrays[TIMESTAMP.bit])
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
        """The row of the first message at or after an offset."""
        delta = offset - self.header.base_offset
        if not self.header.columns & OFFSET_DELTA.bit:
            return min(delta, self.header.record_count)
        return int(np.searchsorted(self._offset_deltas(), delta))

    def _offset_deltas(self) -> npt.NDArray[np.int32]:
        if self._deltas is None:
            self._deltas = to_numbers(self.opened().column(OFFSET_DELTA))
        return self._deltas


class FrameCache:
    """Frames by partition and base offset; the least recently used leave first. One for all brokers of a process.

    After a compaction, frames read before it are not used: which of their messages were aborted may be forgotten.
    """

    def __init__(self, limit_bytes: int = 64 * MIB) -> None:
        self._limit_bytes = limit_bytes
        self._frames: OrderedDict[tuple[Partition, int], StoredFrame] = OrderedDict()
        self._starts: dict[Partition, list[int]] = {}
        self._compacted: dict[Partition, int] = {}
        """How far a partition was compacted when its frames were read."""
        self.size_bytes = 0

    def get(self, partition: Partition, offset: int) -> StoredFrame | None:
        """The frame that holds an offset, if it is cached."""
        starts = self._starts.get(partition)
        if not starts:
            return None
        if self._compacted[partition] != partition.committed.aborted_gone_below:
            self.forget(partition)
            return None
        place = bisect_right(starts, offset)
        if not place:
            return None
        key = (partition, starts[place - 1])
        frame = self._frames[key]
        if frame.end <= offset:
            return None
        self._frames.move_to_end(key)
        return frame

    async def load(self, partition: Partition, offset: int) -> Sequence[StoredFrame]:
        """Consecutive frames, from the one that holds an offset or the first after it; empty at the end of the log.

        Raises what `Log.read` raises: OffsetOutOfRange, and CorruptData, which says where the log continues.
        """
        if frames := self._following(partition, offset):
            return frames
        compacted = partition.committed.aborted_gone_below
        part = await partition.log.read(offset, max_bytes=READ_BYTES)
        if part is None:
            return ()
        try:
            data = await part.read()
        finally:
            part.release()
        if (
            not self._compacted.setdefault(partition, compacted)
            == compacted
            == partition.committed.aborted_gone_below
        ):
            self.forget(partition)
            self._compacted[partition] = compacted
        return self._add(partition, offset, data)

    def forget(self, partition: Partition) -> None:
        self._compacted.pop(partition, None)
        for start in self._starts.pop(partition, ()):
            self.size_bytes -= _cost(self._frames.pop((partition, start)))

    def _following(self, partition: Partition, offset: int) -> list[StoredFrame]:
        found: list[StoredFrame] = []
        size = 0
        while size < READ_BYTES and (frame := self.get(partition, offset)) is not None:
            found.append(frame)
            size += len(frame.data)
            offset = frame.end
        return found

    def _add(self, partition: Partition, offset: int, data: bytes | memoryview) -> list[StoredFrame]:
        found: list[StoredFrame] = []
        try:
            for position, header in split_frames(data):
                found.append(self._keep(partition, header, data, position))
        except InvalidFrame as error:
            # A bad frame after good ones is the first of the next read, which says where the log continues after it.
            if not found:
                raise CorruptData(where=partition.name, problem=error.message, next_offset=offset + 1) from error
        while self.size_bytes > self._limit_bytes and len(self._frames) > len(found):
            self._drop_oldest()
        return found

    def _keep(
        self, partition: Partition, header: FrameHeader, data: bytes | memoryview, position: int
    ) -> StoredFrame:
        """A frame that is a small part of what was read is copied, so that it does not keep all of it in memory."""
        key = (partition, header.base_offset)
        known = self._frames.get(key)
        if known is not None:
            self._frames.move_to_end(key)
            return known
        view = memoryview(data)[position : position + header.frame_bytes]
        frame = StoredFrame(header, view if 2 * len(view) >= len(data) else bytes(view))
        self._frames[key] = frame
        insort(self._starts.setdefault(partition, []), header.base_offset)
        self.size_bytes += _cost(frame)
        return frame

    def _drop_oldest(self) -> None:
        (partition, start), frame = self._frames.popitem(last=False)
        starts = self._starts[partition]
        del starts[bisect_right(starts, start) - 1]
        if not starts:
            del self._starts[partition], self._compacted[partition]
        self.size_bytes -= _cost(frame)


def _cost(frame: StoredFrame) -> int:
    header = frame.header
    opened = header.uncompressed_length if header.compression else 0
    return len(frame.data) + opened + _OPENED_ROW_BYTES * header.record_count + _OPENED_FRAME_BYTES


def _row_ends(frame: OpenFrame) -> npt.NDArray[np.int64]:
    """How many bytes the first n messages take, for each n."""
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
    """Where the items of a binary or map array begin and end. It was read from a batch, so it is not a slice."""
    if len(array) == 0:
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1).astype(np.int64)
