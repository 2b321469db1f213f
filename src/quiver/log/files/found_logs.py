"""Logs as a process before this one left them: which of them are known to be on disk."""

import logging
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from quiver.system.files import Files

FEW = 1 << 30
"""So the file system is never synced as a whole by default: seed 120126 of the cluster simulator lost a dead letter
with 4 here, and it is not known yet whether this is why (docs/adr/0039-one-sync-at-a-start.md)."""
_logger = logging.getLogger(__name__)


class FoundLogs:
    """What an earlier process wrote may not be synced. A few logs are synced one by one; when there are more, the
    whole file system is synced once: that takes less than thousands of syncs, but waits for what others have written.

    A log is as it was found until it is opened here. Safe between threads.
    """

    def __init__(self, root: Path, files: Files, few: int = FEW) -> None:
        self._root, self._files = root, files
        self.few = few
        self._lock = Lock()
        self._not_synced_count = 0
        self._is_all_synced = False
        self._synced: set[str] = set()
        self._opened: set[str] = set()

    def is_synced(self, log_id: str) -> bool:
        """Whether a log that is being opened is on disk as it was found; otherwise it has to be synced."""
        with self._lock:
            if log_id in self._opened:
                return False
            if self._is_all_synced or log_id in self._synced:
                return True
            self._not_synced_count += 1
            if self._not_synced_count == self.few + 1:
                self._sync_all()
            return self._is_all_synced

    def sync_all(self) -> bool:
        """Whether everything that was found is on disk now."""
        with self._lock:
            self._sync_all()
            return self._is_all_synced

    def _sync_all(self) -> None:
        """After an error the logs are synced one by one, so that each tells whether it lacks something."""
        try:
            self._is_all_synced = self._files.sync_file_system(self._root)
        except OSError as error:
            _logger.warning("the file system of %s could not be synced as a whole: %s", self._root, error)

    def note_synced(self, log_ids: Iterable[str]) -> None:
        with self._lock:
            self._synced.update(log_ids)

    def note_opened(self, log_id: str) -> None:
        """It may be written to from now on."""
        with self._lock:
            self._opened.add(log_id)
            self._synced.discard(log_id)
