"""Writing frames after the committed end of a segment."""

from collections.abc import Sequence

from quiver.log.files.open_files import OpenFiles
from quiver.log.segment.segment import Segment
from quiver.records.header import HEADER_BYTES, StampedFrame
from quiver.system.files import IOV_MAX, Buffer


def write_frames(open_files: OpenFiles, segment: Segment, frames: Sequence[StampedFrame]) -> None:
    """Writes headers and bodies as they are, without joining them; the segment does not count them yet.

    OSError when the file system takes less; some bytes may then be in the file.
    """
    buffers: list[Buffer] = []
    size = 0
    for header, header_bytes, body in frames:
        buffers.append(header_bytes)
        buffers.append(body)
        size += HEADER_BYTES + header.length
    fd = open_files.pin(segment.file)
    try:
        segment.file.dirty = True
        files = open_files.files
        if len(buffers) > IOV_MAX:
            files.write_all(fd, buffers, segment.size)
            return
        written = files.pwritev(fd, buffers, segment.size)
        if written != size:
            files.write_all(fd, _after(buffers, written), segment.size + written)
    finally:
        open_files.unpin(segment.file)


def _after(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """What is left of buffers after their first `count` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        if count >= len(buffer):
            count -= len(buffer)
        else:
            rest.append(memoryview(buffer)[count:])
            count = 0
    return rest
