"""The file of the local buffer: appends of logs one after the other, each with a checksum. Blocks."""

import logging
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import google_crc32c
import msgspec

from quiver.model.errors import InvalidSetting, UnsupportedVersion
from quiver.model.limits import MIB
from quiver.system.files import IOV_MAX, Buffer, Files

logger = logging.getLogger(__name__)

NAME = "publishes.buffer"
VERSION = 1
_RECORD = struct.Struct("<II")
_NAME = struct.Struct("<H")
_READ_BYTES = 4 * MIB
_HEADER_BYTES = 256
"""The first record is shorter."""


class BufferHeader(msgspec.Struct, frozen=True, array_like=True):
    """The first record."""

    version: int
    id: bytes
    installation: str
    """Which database and schema the appends belong to."""


class BufferedAppend(NamedTuple):
    end_position: int
    """Where its record ends in the file."""
    log_id: str
    frames: memoryview


class BufferFile:
    """One thread at a time."""

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self.path = directory / NAME
        self._files = files or Files()
        self._fd: int | None = None
        self.header: BufferHeader | None = None
        self.first_position = 0
        """Where the first append begins."""
        self.size_bytes = 0

    def open(self) -> None:
        """Finds what an earlier process has left; a record that is cut off at the end is moved to another file."""
        self._files.make_directory(self.path.parent)
        if not self.path.exists():
            return
        self._fd = self._files.open(self.path)
        try:
            self._find(self._fd, self._files.size(self._fd))
        except BaseException:
            self.close()
            raise

    def _find(self, fd: int, size: int) -> None:
        first = self._read_record(0, size)
        if first is None:
            if size > _HEADER_BYTES:  # a file whose first record was cut off has no others
                raise InvalidSetting(setting="buffer_dir", problem=f"{self.path} is damaged; move it away")
            self.remove()
            return
        self.header, self.first_position = _decoded(self.path, first[0]), first[1]
        end = self.first_position
        while (record := self._read_record(end, size)) is not None:
            end = record[1]
        if end < size:
            self._cut(fd, end, size)
        self.size_bytes = end

    def _cut(self, fd: int, end: int, size: int) -> None:
        kept = self.path.with_suffix(".cut")
        logger.warning("%s: its last %d bytes are no whole record; they are in %s now", self.path, size - end, kept)
        other = self._files.open(kept, create=True)
        try:
            self._files.pwritev(other, [self._files.pread(fd, size - end, end)], 0)
        finally:
            self._files.close(other)
        self._files.truncate(fd, end)
        self._files.fdatasync(fd)

    def create(self, header: BufferHeader) -> None:
        self.close()
        self._fd = self._files.open(self.path, create=True)
        self._files.truncate(self._fd, 0)
        self.header = header
        record = _record([msgspec.msgpack.encode(header)])
        self._write(record, 0)
        self._files.fdatasync(self._fd)
        self._files.sync_directory(self.path.parent)
        self.first_position = self.size_bytes = sum(map(len, record))

    def append(self, appends: Sequence[tuple[str, Sequence[Buffer]]]) -> None:
        """All of them, on disk. After an error the file is as it was before, if the disk allows it."""
        assert self._fd is not None
        parts: list[Buffer] = []
        for log_id, frames in appends:
            name = log_id.encode()
            parts += _record([_NAME.pack(len(name)), name, *frames])
        before = self.size_bytes
        try:
            self._write(parts, before)
            self._files.fdatasync(self._fd)
        except OSError:
            self._files.truncate(self._fd, before)
            raise
        self.size_bytes = before + sum(map(len, parts))

    def _write(self, parts: Sequence[Buffer], position: int) -> None:
        assert self._fd is not None
        for start in range(0, len(parts), IOV_MAX):
            some = parts[start : start + IOV_MAX]
            size = sum(map(len, some))
            written = self._files.pwritev(self._fd, some, position)
            if written < size:
                rest = memoryview(b"".join(some))
                while written < size:
                    written += self._files.pwritev(self._fd, [rest[written:]], position + written)
            position += size

    def read(self, position: int) -> list[BufferedAppend]:
        """Some appends from a position on; none at the end."""
        found: list[BufferedAppend] = []
        start = position = max(position, self.first_position)
        while position - start < _READ_BYTES and (record := self._read_record(position, self.size_bytes)) is not None:
            content, position = record
            (length,) = _NAME.unpack_from(content)
            log_id = content[_NAME.size : _NAME.size + length].decode()
            found.append(BufferedAppend(position, log_id, memoryview(content)[_NAME.size + length :]))
        if not found and position < self.size_bytes:
            raise InvalidSetting(setting="buffer_dir", problem=f"{self.path} is damaged at byte {position}")
        return found

    def _read_record(self, position: int, size: int) -> tuple[bytes, int] | None:
        """What it holds and where it ends; None where there is no whole record."""
        assert self._fd is not None
        head = self._files.pread(self._fd, _RECORD.size, position)
        if len(head) < _RECORD.size:
            return None
        length, checksum = _RECORD.unpack(head)
        if not length or position + _RECORD.size + length > size:
            return None
        content = self._files.pread(self._fd, length, position + _RECORD.size)
        if google_crc32c.value(content) != checksum:
            return None
        return content, position + _RECORD.size + length

    def remove(self) -> None:
        self.close()
        self._files.remove(self.path)
        self._files.sync_directory(self.path.parent)
        self.header = None
        self.size_bytes = self.first_position = 0

    def close(self) -> None:
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None


def _decoded(path: Path, record: bytes) -> BufferHeader:
    try:
        header = msgspec.msgpack.decode(record, type=BufferHeader)
    except msgspec.DecodeError as error:
        raise InvalidSetting(setting="buffer_dir", problem=f"{path} is no buffer: {error}") from error
    if header.version > VERSION:
        raise UnsupportedVersion(problem=f"{path} has version {header.version}, and this Quiver knows {VERSION}")
    return header


def record_bytes(log_id: str, size_bytes: int) -> int:
    """What an append takes in the file."""
    return _RECORD.size + _NAME.size + len(log_id.encode()) + size_bytes


def _record(parts: Sequence[Buffer]) -> list[Buffer]:
    checksum = 0
    for part in parts:
        checksum = google_crc32c.extend(checksum, bytes(part))
    return [_RECORD.pack(sum(map(len, parts)), checksum), *parts]
