"""The files of a data directory, for tests that damage them."""

from pathlib import Path
from typing import NamedTuple

from quiver.model.errors import InvalidFrame
from quiver.records.header import HEADER_BYTES, FrameHeader, unpack_header


class StoredFrame(NamedTuple):
    position: int
    header: FrameHeader

    @property
    def end(self) -> int:
        return self.position + self.header.frame_bytes


def topic_directory(data_dir: Path) -> Path:
    """The directory of the only topic there is."""
    (directory,) = (data_dir / "logs" / "topics").iterdir()
    return directory


def partition_directory(data_dir: Path, partition: int) -> Path:
    return topic_directory(data_dir) / str(partition)


def segments(log_directory: Path) -> list[Path]:
    """The segment files of a log, oldest first."""
    return sorted(log_directory.glob("*.log"))


def stored_frames(segment: Path) -> list[StoredFrame]:
    """Where each frame of a segment lies; ends at the first bytes that are no frame."""
    data, position, found = segment.read_bytes(), 0, []
    while len(data) - position >= HEADER_BYTES:
        try:
            header = unpack_header(data, position)
        except InvalidFrame:
            break
        found.append(StoredFrame(position, header))
        position += header.frame_bytes
    return found


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """Changes one bit of a file in place; doing it twice restores the file."""
    with path.open("r+b") as file:
        file.seek(position)
        value = file.read(1)[0]
        file.seek(position)
        file.write(bytes([value ^ (1 << bit)]))


def append_bytes(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
