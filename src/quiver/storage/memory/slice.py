"""What a read of frames in memory gives."""

from collections.abc import Sequence

from quiver.records.header import HEADER_BYTES


class MemorySlice:
    """Frames that are not in a file."""

    __slots__ = ("_frames", "end_offset", "length")

    is_in_file = False
    file: tuple[int, int] | None = None

    def __init__(self, frames: Sequence[bytes | memoryview], end_offset: int) -> None:
        self._frames = frames
        self.end_offset = end_offset
        self.length = sum(map(len, frames))

    async def read(self) -> bytes | memoryview:
        return self.read_at_once()

    def read_at_once(self) -> bytes | memoryview:
        return self._frames[0] if len(self._frames) == 1 else b"".join(self._frames)

    async def read_headers(self, max_bytes: int) -> bytes:
        most = max(1, max_bytes // HEADER_BYTES)
        return b"".join([frame[:HEADER_BYTES] for frame in self._frames[:most]])

    def release(self) -> None:
        pass
