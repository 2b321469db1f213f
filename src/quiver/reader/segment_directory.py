"""The segment files of a log, for programs that check them byte by byte."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from quiver.log.compaction.progress import COMPACTED, ProgressFile
from quiver.log.compaction.replacement import NOTE
from quiver.log.files.directories import Directories
from quiver.log.recovery.reserved_file import ReservedFile
from quiver.log.segment.frame_scan import FrameFile, Standing
from quiver.log.segment.segment import segment_path
from quiver.model.limits import MIB
from quiver.reader.read_only_files import ReadOnlyFiles

__all__ = ["FrameFile", "KnownEnd", "OpenSegment", "SegmentDirectory", "Standing"]

_WINDOW_BYTES = 4 * MIB
_NOTE_CRC_BYTES = 4
_SUFFIX = ".log"


class KnownEnd(NamedTuple):
    """What the broker last recorded about the end of a log."""

    segment_base: int
    """The last segment then; -1: there was none."""
    segment_size: int
    """How much of it was good and on disk."""
    end_offset: int
    """The offset after that."""
    lost_from: int
    lost_to: int
    """Frames from `lost_from` to below `lost_to` had been on disk and were missing at a start; equal: none."""


class OpenSegment(NamedTuple):
    frames: FrameFile
    """All bytes of the file as it was when it was opened."""
    inode: int
    path: Path


class SegmentDirectory:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = ReadOnlyFiles()

    def base_offsets(self) -> list[int]:
        """The base offsets of the segments that count, in order.

        While compaction replaces several segments by one, and after a crash during that, the replaced segments may
        still be there.
        """
        names = self._files.names(self._directory)
        bases = sorted(int(name.removesuffix(_SUFFIX)) for name in names if _is_segment(name))
        if NOTE not in names:
            return bases
        try:
            note = self._files.read_file(self._directory / NOTE)[_NOTE_CRC_BYTES:]
            replaced, size, _ = msgspec.msgpack.decode(note)
            is_in_place = self._files.path_size(self.path(replaced[0])) == size
        except (OSError, ValueError, msgspec.DecodeError):
            return bases
        return [base for base in bases if not is_in_place or base not in replaced[1:]]

    def last_base_offset(self) -> int:
        """Compaction never touches the last segment: below its base offset anything may be removed."""
        return max(self.base_offsets(), default=0)

    def compacted_below(self) -> int:
        """Compaction has run below this offset, whatever the topic's settings are now."""
        return ProgressFile(self._directory / COMPACTED, self._files).load().clean_to

    def known_end(self) -> KnownEnd | None:
        """None if the broker has recorded nothing."""
        state = ReservedFile(
            self._directory / "reserved", self._files, Directories(self._directory, self._files)
        ).load()
        if state is None:
            return None
        return KnownEnd(state.segment_base, state.segment_size, state.end_offset, state.lost_from, state.lost_to)

    def path(self, base_offset: int) -> Path:
        return segment_path(self._directory, base_offset)

    def size_bytes(self, base_offset: int) -> int | None:
        """None when there is no such segment."""
        try:
            return self._files.path_size(self.path(base_offset))
        except FileNotFoundError:
            return None

    @contextmanager
    def open(self, base_offset: int) -> Iterator[OpenSegment]:
        """Raises FileNotFoundError if there is no such segment."""
        path = self.path(base_offset)
        fd = self._files.open_readonly(path)
        try:
            status = os.fstat(fd)
            frames = FrameFile(self._files, fd, status.st_size, window_bytes=_WINDOW_BYTES)
            yield OpenSegment(frames, status.st_ino, path)
        finally:
            self._files.close(fd)


def _is_segment(name: str) -> bool:
    return name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdecimal()
