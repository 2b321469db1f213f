"""Bytes that processes of one machine share, and that outlive each of them."""

import fcntl
import os
import struct
import time
from collections.abc import Callable

_PLACE = struct.Struct("<QQ")
"""Where the bytes are, and how many."""
_LOCK_SECONDS = 1.0
_PAUSE_SECONDS = 0.005


class SharedMemoryNote:
    """Made before the fork; all processes inherit it. Nothing has a name in the file system."""

    def __init__(self, name: str) -> None:
        self._fd = os.memfd_create(name)

    def update(self, change: Callable[[bytes], bytes]) -> None:
        """Replaces the bytes, one process at a time; called in a thread.

        A process that stopped in the middle of it is not waited for: then the bytes stay as they are.
        """
        is_locked = self._lock()
        try:
            new = change(self._read())
            if is_locked:
                self._write(new)
        finally:
            if is_locked:
                fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)

    def _lock(self) -> bool:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                if time.monotonic() > until:
                    return False
                time.sleep(_PAUSE_SECONDS)

    def _read(self) -> bytes:
        position, length = self._place()
        return os.pread(self._fd, length, position)

    def _write(self, data: bytes) -> None:
        """Beside what is there, which counts until the new place is noted: a process may be killed at any point."""
        position, length = self._place()
        first = _PLACE.size
        new = first if first + len(data) <= position else position + length
        os.pwrite(self._fd, data, new)
        os.pwrite(self._fd, _PLACE.pack(new, len(data)), 0)

    def _place(self) -> tuple[int, int]:
        found = os.pread(self._fd, _PLACE.size, 0)
        position, length = _PLACE.unpack(found) if found else (_PLACE.size, 0)
        return position, length
