"""What a read of segment files gives: a place in a file that stays open until it is released."""

from quiver.log.files.open_files import OpenFiles
from quiver.log.segment.frame_scan import FrameFile
from quiver.log.segment_view import Extent
from quiver.records.header import HEADER_BYTES
from quiver.system.threads import Threads

_READ_ON_LOOP_BYTES = 64 * 1024
_HEADER_WINDOW_BYTES = 4 * 1024


class FileSlice:
    """Bytes of a segment. `file` is for sendfile; `read` is for everybody else."""

    __slots__ = ("_extent", "_open_files", "_threads", "end_offset", "length")

    is_in_file = True

    def __init__(self, extent: Extent, open_files: OpenFiles, threads: Threads) -> None:
        self._extent: Extent | None = extent
        self._open_files = open_files
        self._threads = threads
        self.length = extent.length
        self.end_offset = extent.end_offset

    @property
    def file(self) -> tuple[int, int] | None:
        assert self._extent is not None, "used after release"
        return self._extent.fd, self._extent.position

    async def read(self) -> bytes | memoryview:
        small = self.read_at_once()
        if small is not None:
            return small
        assert self._extent is not None, "used after release"
        _, fd, position, length, _ = self._extent
        return await self._threads.run(self._open_files.files.pread, fd, length, position)

    def read_at_once(self) -> bytes | memoryview | None:
        assert self._extent is not None, "used after release"
        _, fd, position, length, _ = self._extent
        return self._open_files.files.pread(fd, length, position) if length <= _READ_ON_LOOP_BYTES else None

    async def read_headers(self, max_bytes: int) -> bytes:
        return await self._threads.run(self._headers, max_bytes)

    def _headers(self, max_bytes: int) -> bytes:
        """Reads windows of a page where frames are larger than that, so that bodies stay where they are."""
        assert self._extent is not None, "used after release"
        _, fd, position, length, _ = self._extent
        frames = FrameFile(self._open_files.files, fd, position + length, window_bytes=_HEADER_WINDOW_BYTES)
        found = bytearray()
        for at, header in frames.walk(position):
            if header is None or (found and len(found) + HEADER_BYTES > max_bytes):
                break
            found += frames.bytes_at(at, HEADER_BYTES)
        return bytes(found)

    def release(self) -> None:
        if self._extent is not None:
            extent, self._extent = self._extent, None
            self._open_files.unpin(extent.file)
