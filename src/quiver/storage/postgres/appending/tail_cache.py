"""The ends of all logs in memory, so that readers who follow them cost the database nothing."""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence

from quiver.records.header import FrameHeader, StampedFrame

_TRIMMED = 256
_FRAME_BYTES = 400
"""What a frame costs in memory besides its bytes."""


class CachedTail:
    """The last frames of one log, without a gap between them. Frames that left the cache are cut off in lots."""

    __slots__ = ("_cache", "_ends", "_first", "_frames", "_numbers", "_starts", "size_bytes")

    def __init__(self, cache: "TailCache") -> None:
        self._cache = cache
        self._frames: list[bytes] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._numbers: list[int] = []
        """In the cache."""
        self._first = 0
        self.size_bytes = 0

    @property
    def end_offset(self) -> int:
        return self._ends[-1] if len(self._ends) > self._first else 0

    def read(self, offset: int, *, max_bytes: int, end_offset: int) -> tuple[list[bytes], int] | None:
        """Whole frames and the offset after them; None where the cache does not reach back so far, or has none."""
        first = bisect_right(self._ends, offset, lo=self._first)
        if first >= len(self._frames) or (first == self._first and self._starts[first] > offset):
            return None
        size, stop = 0, first
        while stop < len(self._frames) and self._ends[stop] <= end_offset:
            size += len(self._frames[stop])
            if size > max_bytes and stop > first:
                break
            stop += 1
        return (self._frames[first:stop], self._ends[stop - 1]) if stop > first else None

    def add(self, header: FrameHeader, frame: bytes, number: int, size_bytes: int) -> None:
        self._frames.append(frame)
        self._numbers.append(number)
        self._starts.append(header.base_offset)
        self._ends.append(header.base_offset + header.last_offset_delta + 1)
        self.size_bytes += size_bytes

    def remove_first(self, size_bytes: int) -> None:
        self._frames[self._first] = b""
        self._first += 1
        self.size_bytes -= size_bytes
        if self._first >= _TRIMMED and self._first * 2 >= len(self._frames):
            for column in (self._frames, self._starts, self._ends, self._numbers):
                del column[: self._first]
            self._first = 0

    def clear(self) -> None:
        """Everything leaves the cache: the log is closed, or has other frames there now."""
        self._cache.remove(self._numbers[self._first :], self.size_bytes)
        for column in (self._frames, self._starts, self._ends, self._numbers):
            column.clear()
        self._first = self.size_bytes = 0


class TailCache:
    """Frames of all logs in the order in which they were appended; the oldest leave first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._order: OrderedDict[int, tuple[CachedTail, int]] = OrderedDict()
        """By number: the tail that has a frame, and its size."""
        self._next_number = 0
        self.size_bytes = 0

    @property
    def frame_count(self) -> int:
        return len(self._order)

    def add(self, tail: CachedTail, frames: Sequence[StampedFrame], stored: Sequence[bytes]) -> None:
        """Frames that follow those that the tail has; what it has already is left out."""
        end = tail.end_offset
        for (header, _, _), frame in zip(frames, stored, strict=True):
            if header.base_offset < end:
                continue
            size, number = len(frame) + _FRAME_BYTES, self._next_number
            tail.add(header, frame, number, size)
            self._order[number] = tail, size
            self._next_number += 1
            self.size_bytes += size
        while self.size_bytes > self._max_bytes:
            _, (oldest, size) = self._order.popitem(last=False)
            self.size_bytes -= size
            oldest.remove_first(size)

    def remove(self, numbers: Sequence[int], size_bytes: int) -> None:
        """Frames of one tail, which take so much."""
        for number in numbers:
            del self._order[number]
        self.size_bytes -= size_bytes
