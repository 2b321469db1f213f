"""After a crash, what the write-ahead log holds is written to the segments again. Blocking; before logs are open."""

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FORGET, WalRecord
from quiver.system.files import Files

_SEGMENT = re.compile(r"(\d{20})\.log")
_logger = logging.getLogger(__name__)


class Redo:
    """Makes segments as they were when the records of a write-ahead log were synced, and durable.

    Each log by itself, in any order and from several threads; then `end`. To do it twice changes nothing, so that a
    crash in the middle needs no care. Raises OSError.
    """

    def __init__(self, wal: WalFiles, logs_path: Path, files: Files) -> None:
        self._wal, self._logs_path, self._files = wal, logs_path, files
        self._records: dict[str, list[WalRecord]] = {}
        """By log."""
        for record in wal.records():
            if record.kind == FORGET:
                forgotten = record.log_id
                for log_id in [
                    each for each in self._records if each == forgotten or each.startswith(f"{forgotten}/")
                ]:
                    del self._records[log_id]
            else:
                self._records.setdefault(record.log_id, []).append(record)

    @property
    def log_ids(self) -> list[str]:
        return list(self._records)

    def redo(self, log_ids: Iterable[str], *, sync: bool = True) -> list[str]:
        """Returns those that have segments, which are synced. Without `sync` they are written only."""

        def is_redone(log_id: str) -> bool:
            return _redo_log(self._logs_path / log_id, self._records[log_id], self._files, sync=sync)

        return [log_id for log_id in log_ids if is_redone(log_id)]

    def end(self) -> None:
        """All are redone and synced: the records go."""
        self._wal.remove_all()
        if self._records:
            _logger.info("%d logs got back what was synced in the write-ahead log only", len(self._records))


def _redo_log(directory: Path, records: Sequence[WalRecord], files: Files, *, sync: bool) -> bool:
    """Of the last segment only: earlier ones were synced when they were closed, and may be compacted since. Returns
    whether there is one."""
    bases = [int(found[1]) for name in files.names(directory) if (found := _SEGMENT.fullmatch(name)) is not None]
    if not bases:
        return False
    path = directory / f"{max(bases):020d}.log"
    fd = files.open(path)
    try:
        size = files.size(fd)
        for record in records:
            if record.segment_base != max(bases):
                continue
            if record.position > size:
                _logger.error("%s: bytes before %d are missing; what follows is left out", path, record.position)
                break
            size = max(size, files.write_all(fd, [record.data], record.position))
        if sync:
            files.fdatasync(fd)
        return True
    finally:
        files.close(fd)
