"""The files of the write-ahead log: writing, syncing, using them again, reading them after a crash. Blocking."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from quiver.log.files.sync_times import SyncTimes
from quiver.model.limits import KIB
from quiver.storage.local.wal.record import WalRecord, file_header, read_records
from quiver.system.files import Files

GROWTH_BYTES = 256 * KIB
"""A file grows by this much at a time: to overwrite bytes that are allocated syncs in about half the time."""
_NAME = re.compile(r"(\d{20})\.wal")
_SPARE = "spare"
_LEVELS = 2
"""Directories above that may be new: that of all write-ahead logs, and the data directory."""


class WalFiles:
    """Writes to one file at a time: the one with the highest number. For one caller at a time."""

    def __init__(self, directory: Path, files: Files, sync_times: SyncTimes | None = None) -> None:
        self._directory = directory
        self._files = files
        self._sync_times = sync_times or SyncTimes()
        self._number = 0
        self._fd = -1
        self._position = 0
        self._allocated = 0

    def write(self, number: int, records: Sequence[bytes]) -> None:
        """Appends records to a file and syncs it; a number that rises begins a new one. OSError when that fails."""
        if number != self._number:
            self._begin(number)
        buffers = list(records)
        if self._position == 0:
            buffers.insert(0, file_header(number))
        end = self._position + sum(map(len, buffers))
        if end > self._allocated:
            allocated = -(-end // GROWTH_BYTES) * GROWTH_BYTES
            buffers.append(bytes(allocated - end))
        else:
            allocated = self._allocated
        self._files.write_all(self._fd, buffers, self._position)
        self._sync_times.fdatasync(self._files, self._fd)
        self._position, self._allocated = end, allocated

    def _begin(self, number: int) -> None:
        self.close()
        self._files.make_directory(self._directory)
        path = self._path(number)
        if _SPARE in self._files.names(self._directory):
            self._files.rename(self._directory / _SPARE, path)
        self._fd = self._files.open(path, create=True)
        self._position, self._allocated = 0, self._files.size(self._fd)
        for path in (self._directory, *list(self._directory.parents)[:_LEVELS]):
            self._files.sync_directory(path)
        self._number = number

    def retire(self, number: int) -> None:
        """Nothing in a file is needed any more: it is kept for the next one, or removed.

        Durably: it must not come back after a later file that said to forget some of its records.
        """
        names, path = self._files.names(self._directory), self._path(number)
        if _SPARE in names:
            self._files.remove(path)
        elif path.name in names:
            self._files.rename(path, self._directory / _SPARE)
        self._files.sync_directory(self._directory)

    def close(self) -> None:
        self._number = 0
        if self._fd >= 0:
            self._files.close(self._fd)
            self._fd = -1

    def remove_all(self) -> None:
        """Durably: numbers are given out again."""
        self.close()
        names = [name for name in self._files.names(self._directory) if name == _SPARE or _NAME.fullmatch(name)]
        for name in names:
            self._files.remove(self._directory / name)
        if names:
            self._files.sync_directory(self._directory)

    def records(self) -> Iterator[WalRecord]:
        """What all files hold, in the order in which it was written."""
        for name in self._files.names(self._directory):
            if (found := _NAME.fullmatch(name)) is not None:
                content = self._files.read_file(self._directory / name)
                yield from read_records(memoryview(content), int(found[1]))

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020d}.wal"
