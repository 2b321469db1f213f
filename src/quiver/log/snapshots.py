"""Snapshots of a log: small files with a checksum, the last three kept.

They are written without a sync, because a bad one is passed over. Before a log drops frames that only a snapshot
still remembers, it calls `make_durable`; from then on a durable one is kept beside the last three.
"""

import struct
from pathlib import Path
from threading import Lock

import google_crc32c

from quiver.system.files import Files

SNAPSHOTS_KEPT = 3
_HEADER = struct.Struct("<8sqqI")
_MAGIC = b"QVSNAP01"


class SnapshotFiles:
    def __init__(self, directory: Path, files: Files, names: list[str]) -> None:
        self._directory = directory
        self._files = files
        self._lock = Lock()
        self.offsets = sorted(
            int(name[:20]) for name in names if name.endswith(".snapshot") and name[:-9].isdigit() and len(name) == 29
        )
        # of those found here any one may be the durable one
        self._unsynced = set(self.offsets)
        self._anchors = set(self.offsets)

    def save(self, offset: int, data: bytes) -> None:
        header = _HEADER.pack(_MAGIC, offset, len(data), google_crc32c.extend(_crc_of(offset), data))
        with self._lock:
            self._files.write_file(self._path(offset), header + data, sync=offset in self._anchors)
            self._unsynced.add(offset)
            self.offsets = sorted({*self.offsets, offset})
            for old in self.offsets[:-SNAPSHOTS_KEPT]:
                if old not in self._anchors:
                    self._remove(old)

    def newest(self, end_offset: int | None = None) -> tuple[int, bytes] | None:
        """Offset and data of the newest good one that is not above an offset."""
        for offset in reversed(self.offsets):
            if end_offset is None or offset <= end_offset:
                data = self._load(offset)
                if data is not None:
                    return offset, data
        return None

    def make_durable(self) -> None:
        with self._lock:
            for offset in sorted(self._unsynced & set(self.offsets)):
                self._sync(offset)
            if self._unsynced:
                self._files.sync_directory(self._directory)
            self._unsynced.clear()
            newest = self.newest()
            self._anchors = {newest[0]} if newest else set()

    def _sync(self, offset: int) -> None:
        fd = self._files.open(self._path(offset))
        try:
            self._files.fdatasync(fd)
        except OSError:
            self._remove(offset)  # a second try could succeed with the bytes gone
            raise
        finally:
            self._files.close(fd)

    def remove_above(self, offset: int) -> None:
        with self._lock:
            for above in [each for each in self.offsets if each > offset]:
                self._remove(above)

    def _remove(self, offset: int) -> None:
        self._files.remove(self._path(offset))
        self.offsets = [each for each in self.offsets if each != offset]

    def _load(self, offset: int) -> bytes | None:
        try:
            content = self._files.read_file(self._path(offset))
            magic, stored_offset, length, crc = _HEADER.unpack_from(content)
        except (OSError, struct.error):
            return None
        data = content[_HEADER.size :]
        if magic != _MAGIC or stored_offset != offset or length != len(data):
            return None
        return data if google_crc32c.extend(_crc_of(offset), data) == crc else None

    def _path(self, offset: int) -> Path:
        return self._directory / f"{offset:020d}.snapshot"


def _crc_of(offset: int) -> int:
    return int(google_crc32c.value(offset.to_bytes(8, "little", signed=True)))
