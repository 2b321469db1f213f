"""A bounded set of open files: the least recently used one is closed when another is needed.

A file is pinned while somebody reads, writes or sends from it, and is never closed then. A file with writes that
are not synced is synced by its owner before it is closed: a later descriptor might never get the error of a failed
write-back.
"""

import errno
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from threading import Lock

from quiver.log.files.sync_times import SyncTimes
from quiver.system.files import Files

DEFAULT_MAX_OPEN = 256
_LOOKED_AT = 32


class OpenFile:
    """A file that may or may not be open now.

    Its owner sets `dirty` after it has written, while it has the file pinned; `sync` clears it and must not raise.
    """

    __slots__ = ("dirty", "doomed", "fd", "path", "pins", "sync", "turn")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.dirty = False
        self.doomed = False
        self.sync: Callable[[], None] | None = None
        self.turn = Lock()
        """Of whoever opens it, or dooms it."""


class OpenFiles:
    """Safe to use from several threads. Opening may sync and close another file, so it belongs in a worker thread."""

    def __init__(self, files: Files, max_open: int = DEFAULT_MAX_OPEN) -> None:
        self.files = files
        self.sync_times = SyncTimes()
        self.troubled: set[str] = set()
        """Logs that something was found wrong with: whoever looks for problems looks at these."""
        self._max_open = max(1, max_open)
        self._recent: OrderedDict[OpenFile, None] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._recent)

    def pin(self, file: OpenFile, *, create: bool = False) -> int:
        """The file's descriptor, valid until `unpin`. Never blocks when the file is open already."""
        fd = self._pin_if_open(file)
        if fd is not None:
            return fd
        with file.turn:  # not the lock: a file system that syncs may take long to open one, and longer to make one
            fd = self._pin_if_open(file)
            if fd is not None:
                return fd
            fd = self.files.open(file.path, create=create)
            with self._lock:
                file.fd = fd
                file.pins += 1
                self._recent[file] = None
        self._make_room()
        return fd

    def _pin_if_open(self, file: OpenFile) -> int | None:
        with self._lock:
            if file.fd >= 0:
                self._recent.move_to_end(file)
                file.pins += 1
                return file.fd
            if file.doomed:
                raise FileNotFoundError(errno.ENOENT, "no longer there", str(file.path))
        return None

    def pin_if_open(self, file: OpenFile) -> int | None:
        """As `pin` for a file that is open. None: it is not, so all that was written to it is synced, or removed."""
        with self._lock:
            if file.fd < 0:
                return None
            file.pins += 1
            return file.fd

    def unpin(self, file: OpenFile) -> None:
        with self._lock:
            file.pins -= 1
            fd = self._taken(file) if file.doomed and not file.pins else -1
        self._close(fd)

    def forget(self, file: OpenFile) -> None:
        """Closes a file permanently, at the latest when nobody has it pinned any more. It is not synced."""
        with file.turn, self._lock:
            file.doomed = True
            fd = self._taken(file) if not file.pins else -1
        self._close(fd)

    def _make_room(self) -> None:
        for _ in range(len(self._recent)):
            with self._lock:
                if len(self._recent) <= self._max_open:
                    return
                victim = self._victim()
                if victim is None:
                    return
                victim.pins += 1
            sync = victim.sync
            if victim.dirty and sync is not None:
                sync()
            with self._lock:
                victim.pins -= 1
                fd = self._taken(victim) if not victim.pins and not victim.dirty else -1
            self._close(fd)

    def _victim(self) -> OpenFile | None:
        """The file to close: among the least recently used ones preferably one that needs no sync."""
        idle = (file for file in self._recent if not file.pins)
        oldest = list(islice(idle, _LOOKED_AT))
        return next((file for file in oldest if not file.dirty), oldest[0] if oldest else None)

    def _taken(self, file: OpenFile) -> int:
        """Under the lock: nobody finds its descriptor any more. Returns it, to be closed without the lock."""
        fd, file.fd = file.fd, -1
        self._recent.pop(file, None)
        return fd

    def _close(self, fd: int) -> None:
        if fd >= 0:
            self.files.close(fd)
