"""What the workers of one data directory share: its lock, what a start redoes, the numbers of starts. Blocking."""

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from quiver.log.files.directories import Directories
from quiver.log.files.found_logs import FoundLogs
from quiver.log.files.open_files import OpenFiles
from quiver.log.files.write_error import storage_error
from quiver.log.recovery.epoch_file import EPOCHS
from quiver.log.recovery.opening import open_segment_log
from quiver.model.errors import DataDirectoryInUse
from quiver.model.names import StartEpoch
from quiver.storage.local.log import segment_limits
from quiver.storage.local.start_epoch_file import StartEpochFile
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.redo import redo
from quiver.storage.port import LogOptions
from quiver.system.clock import Clock
from quiver.system.files import Files

_FILES_AT_ONCE = 64


class DataDirectory:
    """Whoever has the lock calls `redo_all` before any worker opens a log; a worker that is started again redoes its
    own."""

    def __init__(self, root: Path, files: Files, clock: Clock) -> None:
        self._root, self._files, self._clock = root, files, clock
        self.logs_path = root / "logs"
        self._wal_path = root / "wal"
        self._start_epochs = StartEpochFile(root / "epoch", files)

    def wal_path(self, worker: int) -> Path:
        """Where a worker has its write-ahead log."""
        return self._wal_path / str(worker)

    def lock(self) -> int:
        """Takes the directory for this process and those that inherit the descriptor.

        DataDirectoryInUse names the process that has it.
        """
        is_new = not self._files.names(self._root)
        self._files.make_directory(self.logs_path)
        if is_new:
            # Without its name in the directory above, a power cut takes everything; logs sync what is below it.
            with contextlib.suppress(PermissionError):
                self._files.sync_directory(self._root.parent)
        path = self._root / "lock"
        try:
            fd = self._files.lock(path)
        except BlockingIOError:
            holder = self._files.read_file(path).decode(errors="replace").strip()
            raise DataDirectoryInUse(path=self._root, pid=holder or "unknown") from None
        try:
            self._files.truncate(fd, 0)
            self._files.write_all(fd, [f"{os.getpid()}\n".encode()], 0)
        except BaseException:
            self._files.close(fd)  # otherwise this process could not try again
            raise
        return fd

    def redo_all(self, found_logs: FoundLogs | None = None) -> None:
        """Redoes every write-ahead log, however many workers wrote them."""
        self._redo([self._wal_path, *(self._wal_path / name for name in self._workers_before())], found_logs)

    def redo(self, worker: int, found_logs: FoundLogs) -> None:
        """Redoes what one worker wrote, whose logs nobody has open."""
        self._redo([self.wal_path(worker)], found_logs)

    def _redo(self, wal_paths: Sequence[Path], found_logs: FoundLogs | None) -> None:
        found_logs = found_logs or FoundLogs(self._root, self._files)
        for path in wal_paths:
            redo(WalFiles(path, self._files), self.logs_path, self._files, found_logs)

    def ensure_start_epoch(self) -> None:
        """So that workers can count on, which must not open each other's logs."""
        try:
            self._start_epochs.ensure(self._highest_epoch)
        except OSError as error:
            raise storage_error("the epoch file", error) from error

    def next_start_epoch(self, *, is_alone: bool) -> StartEpoch:
        """A number that no start of any worker has had. Alone, it looks into the logs if the file is lost."""
        try:
            return StartEpoch(self._start_epochs.next(self._highest_epoch if is_alone else None))
        except OSError as error:
            raise storage_error("the epoch file", error) from error

    def find_logs(self, below: str = "") -> list[str]:
        """All logs, or those in one directory."""
        found, waiting = [], [(self.logs_path / below, below)]
        while waiting:
            path, log_id = waiting.pop()
            names = self._files.names(path)
            if log_id and is_log(names):
                found.append(log_id)
            else:
                waiting += [(path / name, f"{log_id}/{name}" if log_id else name) for name in names]
        return found

    def _workers_before(self) -> list[str]:
        return [name for name in self._files.names(self._wal_path) if name.isdecimal()]

    def _highest_epoch(self) -> int:
        """The highest epoch that a frame has, for when the file that counts them is lost."""
        open_files, directories = OpenFiles(self._files, _FILES_AT_ONCE), Directories(self._root, self._files)
        highest = 0
        for log_id in self.find_logs():
            path, limits = self.logs_path / log_id, segment_limits(LogOptions())
            log = open_segment_log(log_id, path, open_files, limits, directories=directories, clock=self._clock)
            highest = max(highest, log.view.tail.last_epoch)
            log.files.forget()
        return highest


def is_log(names: list[str]) -> bool:
    """Any of its files may be all that a power cut, or a removal that was interrupted, has left of a log. Names of
    directories have no dot."""
    return any(name == "reserved" or name.startswith(EPOCHS) or "." in name for name in names)
