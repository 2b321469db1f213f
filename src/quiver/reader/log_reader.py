"""One log of a data directory, read while a broker may be writing it."""

from pathlib import Path
from typing import NamedTuple

from quiver.log.files.directories import Directories
from quiver.log.files.open_files import OpenFiles
from quiver.log.recovery.reserved_file import LogState, ReservedFile
from quiver.log.segment.frame_scan import FrameFile
from quiver.log.segment_view import Extent, SegmentView, Tail
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import CorruptData
from quiver.reader.log_end import check_frame_version, find_end
from quiver.reader.read_only_files import ReadOnlyFiles
from quiver.reader.segments import list_segments

_UNKNOWN_END = 2**62
_NO_STATE = LogState()


class SegmentExtent(NamedTuple):
    """A segment file as it was at the last refresh."""

    path: Path
    base_offset: int
    size_bytes: int


class FrameBytes:
    """Consecutive frames in a file, which stays open as long as the `with` block that this is used in."""

    def __init__(self, open_files: OpenFiles, extent: Extent) -> None:
        self._open_files = open_files
        self._extent = extent
        self.position = extent.position

    def __enter__(self) -> "FrameBytes":
        return self

    def __exit__(self, *exception: object) -> None:
        self._open_files.unpin(self._extent.file)

    def frames(self, window_bytes: int) -> FrameFile:
        """Positions in it count from the beginning of the file."""
        end = self._extent.position + self._extent.length
        return FrameFile(self._open_files.files, self._extent.fd, end, window_bytes=window_bytes)


class LogReader:
    """Shows the log as it was at the last `refresh`. A reader that knows where to stop needs `refresh_files` only."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self._files = ReadOnlyFiles()
        self._view = SegmentView(name, OpenFiles(self._files))

    @property
    def start_offset(self) -> int:
        return self._view.start_offset

    @property
    def end_offset(self) -> int:
        return self._view.end_offset

    @property
    def size_bytes(self) -> int:
        return self._view.size_bytes

    @property
    def segments(self) -> list[SegmentExtent]:
        return [SegmentExtent(each.path, each.base_offset, each.size) for each in self._view.segments]

    def refresh_files(self) -> None:
        """Treats every byte that is in the files now as part of the log."""
        self.close()
        view = self._view
        view.segments = list_segments(self.directory, view.open_files)
        last = view.segments[-1] if view.segments else None
        view.damage = []
        view.forget_positions()
        view.tail = Tail(_UNKNOWN_END, last, last.size if last else 0)

    def refresh(self) -> None:
        """Finds the files and where the log ends now."""
        self.refresh_files()
        state = (
            ReservedFile(self.directory / "reserved", self._files, Directories(self.directory, self._files)).load()
            or _NO_STATE
        )
        snapshot = self.newest_snapshot()
        offset = 0 if snapshot is None else snapshot[0]
        self._view.tail = find_end(self.name, self._view.segments, state, offset)

    def offset_for_time(self, time_ms: int) -> int:
        """The first offset that was appended at or after a time; the end if there is none."""
        return self._view.offset_for_time(time_ms)

    def newest_snapshot(self, end_offset: int | None = None) -> tuple[int, bytes] | None:
        """The newest complete snapshot up to an offset: its offset and its content."""
        return SnapshotFiles(self.directory, self._files, self._files.names(self.directory)).newest(end_offset)

    def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameBytes | None:
        """Bytes from the frame with an offset, or the first after it; None if there is none below the end.

        Raises OffsetOutOfRange if the log begins later now, CorruptData if the frame is damaged, FileNotFoundError if
        its file was removed since the last refresh.
        """
        try:
            extent = self._view.read(offset, max_bytes=max_bytes, end_offset=end_offset)
        except CorruptData:
            self._check_versions()
            raise
        return None if extent is None else FrameBytes(self._view.open_files, extent)

    def _check_versions(self) -> None:
        """Raises UnsupportedVersion if what seems damaged is a frame of a later version."""
        for damage in self._view.damage:
            for segment in self._view.segments:
                if segment.base_offset == damage.segment_base:
                    with segment.frames() as frames:
                        check_frame_version(self.name, frames, damage.position)

    def close(self) -> None:
        """Closes its files; the reader may be used again."""
        for segment in self._view.segments:
            segment.forget()
