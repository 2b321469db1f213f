"""The last frames of a log in memory, for followers that are as far as that."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from quiver.model.limits import KIB
from quiver.records.header import HEADER_BYTES, StampedFrame, read_stamped_header

KEPT_BYTES = 256 * KIB

Buffer = bytes | bytearray | memoryview


class RecentFrames:
    def __init__(self) -> None:
        self._frames: deque[StampedFrame] = deque()
        self._size_bytes = 0

    def add(self, frames: Sequence[StampedFrame]) -> None:
        for frame in frames:
            self._frames.append(frame)
            self._size_bytes += frame.header.frame_bytes
        while self._size_bytes > KEPT_BYTES:
            self._size_bytes -= self._frames.popleft().header.frame_bytes

    def forget_below(self, offset: int) -> None:
        """All followers have it."""
        while self._frames and self._frames[0].header.next_offset <= offset:
            self._size_bytes -= self._frames.popleft().header.frame_bytes

    def between(self, offset: int, end_offset: int, max_bytes: int) -> tuple[list[Buffer], int] | None:
        """Frames from an offset on, and where they end; None where the first of them is not here."""
        frames = self._frames
        if not frames or frames[0].header.base_offset > offset:
            return None
        at = bisect_left(frames, offset, key=lambda frame: frame.header.base_offset)
        if at == len(frames) or frames[at].header.base_offset != offset:
            return None
        found: list[Buffer] = []
        for number in range(at, len(frames)):
            header_bytes, body = frames[number].header_bytes, frames[number].body
            size = frames[number].header.frame_bytes
            if frames[number].header.next_offset > end_offset or (found and size > max_bytes):
                break
            found += [header_bytes, body]
            max_bytes -= size
            offset = frames[number].header.next_offset
        return (found, offset) if found else None


def whole_frames(data: Buffer) -> tuple[int, int]:
    """How many bytes of it are whole frames, and where the last of them ends."""
    position, end_offset = 0, 0
    while position + HEADER_BYTES <= len(data):
        header = read_stamped_header(data, position)
        if position + header.frame_bytes > len(data):
            break
        position += header.frame_bytes
        end_offset = header.next_offset
    return position, end_offset
