"""The sparse index of one segment: offset and time index in one.

There is an entry for the first frame after every 4 KiB. It also says how many messages of each priority come before
that frame in the segment. An index may be wrong: every entry has a checksum and is compared with the frame that it
points to, and a bad index is built again from the log. So it is written late and never synced.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import NamedTuple

import google_crc32c

from quiver.log.files.open_files import OpenFile, OpenFiles

INDEX_INTERVAL_BYTES = 4096
ENTRY_BYTES = 80
_FIELDS = struct.Struct("<qqqq5qI")
_CRC = struct.Struct("<I")
_PENDING_MAX = 128
_BLOCK_ENTRIES = 96

Counts = tuple[int, ...]
"""Messages by priority, the most urgent first."""
PRIORITIES = 5
NO_MESSAGES: Counts = (0,) * PRIORITIES
ANY_PRIORITY = (1 << PRIORITIES) - 1


def among(counts: Iterable[int], priorities: int) -> int:
    """How many messages have one of the priorities (a bit each)."""
    return sum([count for priority, count in enumerate(counts) if priorities >> priority & 1])


class DamagedIndex(Exception):
    """An entry that fails its checksum, or does not match its frame."""


class IndexEntry(NamedTuple):
    offset: int
    position: int
    append_time_ms: int
    max_timestamp_ms: int
    """The largest message timestamp of the segment up to this frame, itself included."""
    counts: Counts
    """Messages in the segment before this frame."""


def _encode(entry: IndexEntry) -> bytes:
    fields = _FIELDS.pack(*entry[:4], *entry.counts, 0)
    return fields + _CRC.pack(google_crc32c.value(fields))


def _decode(data: bytes, begin: int = 0) -> IndexEntry:
    fields = data[begin : begin + _FIELDS.size]
    tail = data[begin + _FIELDS.size : begin + ENTRY_BYTES]
    if len(tail) < _CRC.size or _CRC.unpack(tail)[0] != google_crc32c.value(fields):
        raise DamagedIndex
    offset, position, append_time_ms, max_timestamp_ms, *counts, _ = _FIELDS.unpack(fields)
    return IndexEntry(offset, position, append_time_ms, max_timestamp_ms, tuple(counts))


class SegmentIndex:
    """The newest entries wait in memory, a few thousand bytes at most; the others are searched in the file."""

    def __init__(self, file: OpenFile, open_files: OpenFiles, stored_count: int) -> None:
        self.file = file
        self._open_files = open_files
        self._stored_count = stored_count
        self._pending: list[IndexEntry] = []
        self.due_position = 0
        """The next frame that begins here or after gets an entry."""
        self.is_full = False
        """Whether enough entries wait in memory for a write."""
        self._lock = RLock()

    def add(
        self, offset: int, position: int, append_time_ms: int, max_timestamp_ms: int, counts: Sequence[int]
    ) -> None:
        """Adds a frame. One is due at or after `due_position`."""
        self.due_position = position + INDEX_INTERVAL_BYTES
        self._pending.append(IndexEntry(offset, position, append_time_ms, max_timestamp_ms, tuple(counts)))
        self.is_full = len(self._pending) >= _PENDING_MAX

    def flush(self) -> None:
        """Writes what waits. An index that cannot be written is left as it is: the log does not depend on it."""
        with self._lock:
            pending, count = self._pending, len(self._pending)  # the writer may add to it meanwhile
            if not count:
                return
            try:
                fd = self._open_files.pin(self.file, create=True)
            except OSError:
                del pending[: max(0, count - _PENDING_MAX)]
                return
            try:
                data = b"".join(map(_encode, pending[:count]))
                self._open_files.files.write_all(fd, [data], self._stored_count * ENTRY_BYTES)
                self._stored_count += count
                del pending[:count]
            except OSError:
                del pending[: max(0, count - _PENDING_MAX)]
            finally:
                self._open_files.unpin(self.file)
            self.is_full = len(pending) >= _PENDING_MAX

    def _waiting_entry(self, test: Callable[[IndexEntry], bool]) -> IndexEntry | None:
        """Like last_where, among the entries in memory only."""
        pending = self._pending
        low, high = 0, len(pending)
        while low < high:
            middle = (low + high) // 2
            if test(pending[middle]):
                low = middle + 1
            else:
                high = middle
        return pending[low - 1] if low else None

    def last_where(self, test: Callable[[IndexEntry], bool]) -> IndexEntry | None:
        """The last entry that passes a test which all entries up to some place pass, and none after it."""
        with self._lock:
            found = self._waiting_entry(test)
            if found is not None or not self._stored_count:
                return found
            fd = self._open_files.pin(self.file, create=True)
            try:
                return self._search_file(fd, test)
            finally:
                self._open_files.unpin(self.file)

    def _search_file(self, fd: int, test: Callable[[IndexEntry], bool]) -> IndexEntry | None:
        low, high = 0, self._stored_count
        block, block_at = b"", 0
        found: IndexEntry | None = None
        while low < high:
            middle = (low + high) // 2
            if not block and high - low <= _BLOCK_ENTRIES:
                block = self._open_files.files.pread(fd, (high - low) * ENTRY_BYTES, low * ENTRY_BYTES)
                block_at = low
            if block:
                entry = _decode(block, (middle - block_at) * ENTRY_BYTES)
            else:
                entry = _decode(self._open_files.files.pread(fd, ENTRY_BYTES, middle * ENTRY_BYTES))
            if test(entry):
                found, low = entry, middle + 1
            else:
                high = middle
        return found

    def rebuild(self, walk: Callable[[int | None], Iterable[IndexEntry]]) -> None:
        """Replaces the stored entries by those that `walk` yields below a position (None: all)."""
        with self._lock:
            stop = self._pending[0].position if self._pending else None
            entries = list(walk(stop))
            if entries:
                self.due_position = max(self.due_position, entries[-1].position + INDEX_INTERVAL_BYTES)
            fd = self._open_files.pin(self.file, create=True)
            try:
                self._open_files.files.truncate(fd, 0)
                self._open_files.files.write_all(fd, [b"".join(map(_encode, entries))], 0)
            finally:
                self._open_files.unpin(self.file)
            self._stored_count = len(entries)

    def cut(self, position: int) -> None:
        """Forgets the entries at and after a position."""
        with self._lock:
            if not self._stored_count:  # the file may not be there, and need not be
                self._pending[:] = [entry for entry in self._pending if entry.position < position]
                self.is_full, self.due_position = len(self._pending) >= _PENDING_MAX, position
                return
            self.flush()
            fd = self._open_files.pin(self.file, create=True)
            try:
                low, high = 0, self._stored_count if position else 0
                while low < high:
                    middle = (low + high) // 2
                    entry = _decode(self._open_files.files.pread(fd, ENTRY_BYTES, middle * ENTRY_BYTES))
                    low, high = (middle + 1, high) if entry.position < position else (low, middle)
                self._open_files.files.truncate(fd, low * ENTRY_BYTES)
                self._stored_count = low
                self.due_position = position
            finally:
                self._open_files.unpin(self.file)

    def entries(self) -> list[IndexEntry]:
        """All entries. Raises DamagedIndex if one is bad."""
        with self._lock:
            data = b""
            if self._stored_count:
                fd = self._open_files.pin(self.file, create=True)
                try:
                    data = self._open_files.files.pread(fd, self._stored_count * ENTRY_BYTES, 0)
                finally:
                    self._open_files.unpin(self.file)
            stored = [_decode(data, at * ENTRY_BYTES) for at in range(self._stored_count)]
            return stored + self._pending
