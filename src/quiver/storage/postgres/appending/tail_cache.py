"""The ends of all logs in memory, so that readers who follow them cost the database nothing."""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from quiver.records.header import FrameHeader, StampedFrame

_TRIMMED = 256


class CachedTail:
    """The last frames of one log, without a gap between them. Frames that left the cache are cut off in lots."""

    __slots__ = ("_ends", "_first", "_frames", "_starts", "generation")

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._first = 0
        self.generation = 0
        """Raised when everything leaves the cache at once."""

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

    def add(self, header: FrameHeader, frame: bytes) -> None:
        self._frames.append(frame)
        self._starts.append(header.base_offset)
        self._ends.append(header.base_offset + header.last_offset_delta + 1)

    def remove_first(self) -> None:
        self._frames[self._first] = b""
        self._first += 1
        if self._first >= _TRIMMED and self._first * 2 >= len(self._frames):
            for column in (self._frames, self._starts, self._ends):
                del column[: self._first]
            self._first = 0

    def clear(self) -> None:
        for column in (self._frames, self._starts, self._ends):
            column.clear()
        self._first = 0
        self.generation += 1


class TailCache:
    """Frames of all logs in the order in which they were appended; the oldest leave first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._order: deque[tuple[CachedTail, int, int]] = deque()
        self.size_bytes = 0

    def add(self, tail: CachedTail, frames: Sequence[StampedFrame], stored: Sequence[bytes]) -> None:
        """Frames that follow those that the tail has; what it has already is left out."""
        end = tail.end_offset
        for (header, _, _), frame in zip(frames, stored, strict=True):
            if header.base_offset < end:
                continue
            tail.add(header, frame)
            self._order.append((tail, tail.generation, len(frame)))
            self.size_bytes += len(frame)
        while self.size_bytes > self._max_bytes:
            oldest, generation, size = self._order.popleft()
            self.size_bytes -= size
            if oldest.generation == generation:
                oldest.remove_first()
