"""A bounded set of open files: the least recently used one is closed when another is needed.

A file is pinned while somebody reads, writes or sends from it, and is never closed then. A file with writes that
are not synced is synced before it is closed, because a later descriptor might never learn of a failed write-back.
"""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from quiver.system.files import Files

DEFAULT_MAX_OPEN = 256


class OpenFile:
    """A file that may or may not be open now. Its owner sets `dirty` after writing, while it has it pinned."""

    __slots__ = ("dirty", "doomed", "fd", "on_sync_failure", "path", "pins")

    def __init__(self, path: Path, on_sync_failure: Callable[[OSError], None] | None = None) -> None:
        self.path = path
        self.fd = -1
        self.pins = 0
        self.dirty = False
        self.doomed = False
        self.on_sync_failure = on_sync_failure


class OpenFiles:
    """Safe to use from several threads. Opening may sync and close another file, so it belongs in a worker thread."""

    def __init__(self, files: Files, max_open: int = DEFAULT_MAX_OPEN) -> None:
        self.files = files
        self._max_open = max(1, max_open)
        self._recent: OrderedDict[OpenFile, None] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._recent)

    def pin(self, file: OpenFile, *, create: bool = False) -> int:
        """The file's descriptor, valid until `unpin`."""
        with self._lock:
            if file.fd < 0:
                file.fd = self.files.open(file.path, create=create)
                self._recent[file] = None
            else:
                self._recent.move_to_end(file)
            file.pins += 1
            crowded = len(self._recent) > self._max_open
        if crowded:
            self._make_room()
        return file.fd

    def unpin(self, file: OpenFile) -> None:
        with self._lock:
            file.pins -= 1
            if file.doomed and not file.pins:
                self._close(file)

    def forget(self, file: OpenFile) -> None:
        """Closes a file for good, at the latest when nobody has it pinned any more. It is not synced."""
        with self._lock:
            file.doomed = True
            if not file.pins:
                self._close(file)

    def _make_room(self) -> None:
        for _ in range(len(self._recent)):
            with self._lock:
                if len(self._recent) <= self._max_open:
                    return
                victim = next((file for file in self._recent if not file.pins), None)
                if victim is None:
                    return
                victim.pins += 1
            self._sync_victim(victim)
            with self._lock:
                victim.pins -= 1
                if not victim.pins and not victim.dirty:
                    self._close(victim)

    def _sync_victim(self, victim: OpenFile) -> None:
        if not victim.dirty:
            return
        victim.dirty = False
        try:
            self.files.fdatasync(victim.fd)
        except OSError as error:
            if victim.on_sync_failure is not None:
                victim.on_sync_failure(error)

    def _close(self, file: OpenFile) -> None:
        if file.fd >= 0:
            fd, file.fd = file.fd, -1
            self._recent.pop(file, None)
            self.files.close(fd)
