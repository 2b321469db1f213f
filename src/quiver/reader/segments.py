"""The segments of a log whose files another process writes."""

import re
from pathlib import Path

from quiver.log.files.open_files import OpenFiles
from quiver.log.segment.segment import Segment, segment_path

_SEGMENT = re.compile(r"\d{20}\.log")


class ReadOnlySegment(Segment):
    """A segment whose index may end early, because its broker writes it late: the rest is read from the log."""

    def rebuild_index(self) -> None:
        """An index that cannot be read is ignored."""


def list_segments(directory: Path, open_files: OpenFiles) -> tuple[Segment, ...]:
    """The segments that exist now, in order."""
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
