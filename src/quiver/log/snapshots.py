"""Snapshots of a log: small files with a checksum, the last three kept.

They are written without a sync, because a bad one is skipped. Before a log removes frames whose content only a
snapshot still has, it calls `make_durable`: after that, two good snapshots that need none of these frames are on
disk. If there is only one, a second copy of it is kept.
"""

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Lock

import google_crc32c

from quiver.system.files import Files

SNAPSHOTS_KEPT = 3
VERSION = 1
"""Rises when the content of any snapshot changes so that older brokers cannot read it."""
_HEADER = struct.Struct("<8sqqI")
_MAGIC = b"QVSNAP"
_COPY = ".copy"
_logger = logging.getLogger(__name__)


class SnapshotFiles:
    def __init__(
        self, directory: Path, files: Files, names: list[str], on_problem: Callable[[], None] = lambda: None
    ) -> None:
        self._directory = directory
        self._on_problem = on_problem
        self._files = files
        self._lock = Lock()
        self.offsets = sorted({offset for name in names if (offset := _offset_of(name)) is not None})
        self.problems: dict[int, str] = {}
        """What is wrong with damaged ones that have not been replaced yet."""
        self._bad: set[int] = set()
        self._copies = {int(name[:20]) for name in names if name.endswith(_COPY) and _offset_of(name) is not None}
        # any of those found here may be the durable one
        self._unsynced = set(self.offsets)
        self._anchors = set(self.offsets)

    def save(self, offset: int, data: bytes) -> None:
        header = _HEADER.pack(_magic(VERSION), offset, len(data), google_crc32c.extend(_crc_of(offset), data))
        with self._lock:
            self._files.write_file(self._path(offset), header + data, sync=offset in self._anchors)
            if offset in self._copies:
                self._files.write_file(self._path(offset, _COPY), header + data, sync=True)
            self._accept(offset)
            self._unsynced.add(offset)
            self.offsets = sorted({*self.offsets, offset})
            good = [each for each in self.offsets if each not in self._bad]
            kept = {*good[-SNAPSHOTS_KEPT:], *self._anchors}
            for old in [each for each in self.offsets if each not in kept]:
                self._remove(old)

    def newest(self, end_offset: int | None = None) -> tuple[int, bytes] | None:
        """The offset and data of the newest good snapshot at or below an offset."""
        for offset in reversed(self.offsets):
            if end_offset is None or offset <= end_offset:
                data = self._load(offset)
                if data is not None:
                    return offset, data
        return None

    def refuse(self, offset: int, problem: str) -> None:
        """The owner cannot use this snapshot: it is skipped from now on."""
        if offset not in self._bad:
            self._bad.add(offset)
            self._anchors.discard(offset)
            self.problems[offset] = f"{self._path(offset).name} is not used: {problem}"
            self._on_problem()
            _logger.error("%s is not used: %s", self._path(offset), problem)

    def make_durable(self, start_offset: int) -> None:
        """Called before frames below an offset are removed."""
        with self._lock:
            for offset in sorted(self._unsynced & set(self.offsets)):
                self._sync(offset)
            if self._unsynced:
                self._files.sync_directory(self._directory)
            self._unsynced.clear()
            good = self._two_good()
            self._anchors = set(good)
            if good and (len(good) < 2 or good[1] < start_offset):
                self._copy(good[0])

    def _two_good(self) -> list[int]:
        """The newest first."""
        good: list[int] = []
        for offset in reversed(self.offsets):
            if len(good) < 2 and self._load(offset) is not None:
                good.append(offset)
        return good

    def _copy(self, offset: int) -> None:
        if offset not in self._copies:
            data = self._files.read_file(self._path(offset))
            self._files.write_file(self._path(offset, _COPY), data, sync=True)
            self._copies.add(offset)

    def _sync(self, offset: int) -> None:
        try:
            fd = self._files.open(self._path(offset))
        except FileNotFoundError:
            return  # only its copy is left
        try:
            self._files.fdatasync(fd)
        except OSError:
            self._remove(offset)  # a second sync could succeed although the bytes are gone
            raise
        finally:
            self._files.close(fd)

    def remove_above(self, offset: int) -> None:
        with self._lock:
            for above in [each for each in self.offsets if each > offset]:
                self._remove(above)

    def _remove(self, offset: int) -> None:
        self._files.remove(self._path(offset))
        if offset in self._copies:
            self._files.remove(self._path(offset, _COPY))
            self._copies.discard(offset)
        self._accept(offset)
        self.offsets = [each for each in self.offsets if each != offset]

    def _accept(self, offset: int) -> None:
        self._bad.discard(offset)
        self.problems.pop(offset, None)

    def _load(self, offset: int) -> bytes | None:
        if offset in self._bad:
            return None
        found = self._read(self._path(offset), offset)
        if isinstance(found, bytes):
            return found
        if offset in self._copies:
            copy = self._read(self._path(offset, _COPY), offset)
            if isinstance(copy, bytes):
                self._note_copy(offset, found)
                return copy
        self.refuse(offset, found)
        return None

    def _note_copy(self, offset: int, problem: str) -> None:
        if offset not in self.problems:
            self.problems[offset] = f"{self._path(offset).name} is not used, but its copy: {problem}"
            self._on_problem()
            _logger.error("%s is not used, but its copy: %s", self._path(offset), problem)

    def _read(self, path: Path, offset: int) -> bytes | str:
        """The data of a snapshot, or what is wrong with it."""
        try:
            content = self._files.read_file(path)
            magic, stored_offset, length, crc = _HEADER.unpack_from(content)
        except OSError as error:
            return f"it cannot be read ({error.strerror})"
        except struct.error:
            return "it is cut short"
        data = content[_HEADER.size :]
        version = magic[len(_MAGIC) :]
        if magic[: len(_MAGIC)] == _MAGIC and version.isdigit() and int(version) > VERSION:
            return f"it was written by a newer version of Quiver (format {int(version)}, this one knows {VERSION})"
        if magic != _magic(VERSION) or stored_offset != offset:
            return "it is damaged"
        if length != len(data):
            return f"it is cut short: {len(data)} of {length} bytes are there"
        return data if google_crc32c.extend(_crc_of(offset), data) == crc else "it is damaged: its checksum is wrong"

    def _path(self, offset: int, suffix: str = "") -> Path:
        return self._directory / f"{offset:020d}.snapshot{suffix}"


def _offset_of(name: str) -> int | None:
    plain = name.removesuffix(_COPY)
    return int(plain[:20]) if plain.endswith(".snapshot") and plain[:-9].isdigit() and len(plain) == 29 else None


def _magic(version: int) -> bytes:
    return _MAGIC + b"%02d" % version


def _crc_of(offset: int) -> int:
    return int(google_crc32c.value(offset.to_bytes(8, "little", signed=True)))
