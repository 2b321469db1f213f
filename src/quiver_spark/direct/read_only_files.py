"""A data directory that belongs to somebody else: nothing in it is changed, locked or repaired."""

import errno
import os
import re
from collections.abc import Sequence
from pathlib import Path

from quiver.log.files.open_files import OpenFiles
from quiver.log.segment.segment import Segment, segment_path
from quiver.system.files import Buffer, Files

_SEGMENT = re.compile(r"\d{20}\.log")


class ReadOnlyFiles(Files):
    """Opens for reading whatever is asked, and refuses to write."""

    def open(self, path: Path, *, create: bool = False) -> int:
        return self.open_readonly(path)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        raise _refused()

    def truncate(self, fd: int, size: int) -> None:
        raise _refused()

    def rename(self, source: Path, target: Path) -> None:
        raise _refused()

    def remove(self, path: Path) -> None:
        raise _refused()

    def remove_tree(self, path: Path) -> None:
        raise _refused()

    def make_directory(self, path: Path) -> None:
        raise _refused()

    def write_file(self, path: Path, data: bytes, *, sync: bool = True) -> None:
        raise _refused()

    def lock(self, path: Path) -> int:
        raise _refused()


class ReadOnlySegment(Segment):
    """One whose index may end early, because its broker writes it late: what is behind it is found in the log."""

    def rebuild_index(self) -> None:
        """An index that is no good is not used."""


def list_segments(directory: Path, open_files: OpenFiles) -> tuple[Segment, ...]:
    """The segments that are there now, in order."""
    segments: list[Segment] = []
    for name in open_files.files.names(directory):
        if not _SEGMENT.fullmatch(name):
            continue
        base_offset = int(name[:20])
        path = segment_path(directory, base_offset)
        try:
            size = open_files.files.path_size(path)
        except FileNotFoundError:  # removed meanwhile
            continue
        try:
            index_size = open_files.files.path_size(path.with_suffix(".index"))
        except FileNotFoundError:
            index_size = 0
        segments.append(ReadOnlySegment(directory, base_offset, open_files, size=size, index_size=index_size))
    return tuple(segments)


def _refused() -> OSError:
    return OSError(errno.EROFS, os.strerror(errno.EROFS))
