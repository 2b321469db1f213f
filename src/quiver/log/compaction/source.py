"""The frames of a segment that is to be compacted. Every frame is checked before it is used."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from quiver.log.segment.frame_scan import FrameFile
from quiver.log.segment.segment import segment_path
from quiver.model.limits import MIB
from quiver.records.header import HEADER_BYTES, FrameHeader, StampedFrame, body_crc, read_stamped_header
from quiver.system.files import Files

_WINDOW_BYTES = 8 * MIB


class BadFrame(Exception):
    """A stored frame fails a checksum."""


class Source(Protocol):
    @property
    def base_offset(self) -> int: ...

    @property
    def is_sound(self) -> bool:
        """False if it is known to be damaged."""
        ...

    def frames(self) -> Iterator[StampedFrame]:
        """All frames in order. Raises BadFrame at the first with a bad checksum."""
        ...


class FileSource(NamedTuple):
    files: Files
    directory: Path
    base_offset: int
    size: int
    is_sound: bool

    def frames(self) -> Iterator[StampedFrame]:
        fd = self.files.open_readonly(segment_path(self.directory, self.base_offset))
        try:
            file = FrameFile(self.files, fd, self.size, window_bytes=_WINDOW_BYTES)
            for position, header in file.walk(0):
                if header is None:
                    raise BadFrame
                yield _checked(header, file.bytes_at(position, header.frame_bytes))
        finally:
            self.files.close(fd)


class MemorySource(NamedTuple):
    base_offset: int
    stored: list[bytes]
    is_sound: bool = True

    def frames(self) -> Iterator[StampedFrame]:
        for frame in self.stored:
            yield _checked(read_stamped_header(frame), memoryview(frame))


def _checked(header: FrameHeader, frame: memoryview) -> StampedFrame:
    body = frame[HEADER_BYTES:]
    if len(frame) < header.frame_bytes or body_crc(frame, body) != header.body_crc:
        raise BadFrame
    return StampedFrame(header, frame[:HEADER_BYTES], body)
