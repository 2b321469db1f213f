"""After a crash, what the write-ahead log holds is written to the segments again. Blocking; before logs are open."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from quiver.log.files.found_logs import FoundLogs
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FORGET, WalRecord
from quiver.system.files import Files

_SEGMENT = re.compile(r"(\d{20})\.log")
_logger = logging.getLogger(__name__)


def redo(wal: WalFiles, logs_path: Path, files: Files, found_logs: FoundLogs) -> None:
    """Makes segments as they were when the records of a write-ahead log were synced, and durable. Raises OSError.

    To do it twice changes nothing, so that a crash in the middle needs no care.
    """
    records = _by_log(wal)
    are_many = len(records) > found_logs.few
    redone = [each for each in records if _redo_log(logs_path / each, records[each], files, sync=not are_many)]
    if are_many and not found_logs.sync_all():
        for log_id in redone:
            _redo_log(logs_path / log_id, records[log_id], files, sync=True)
    found_logs.note_synced(redone)
    wal.remove_all()
    if records:
        _logger.info("%d logs got back what was synced in the write-ahead log only", len(records))


def _by_log(wal: WalFiles) -> dict[str, list[WalRecord]]:
    """Without those of logs that were removed."""
    found: dict[str, list[WalRecord]] = {}
    for record in wal.records():
        if record.kind == FORGET:
            forgotten = record.log_id
            for log_id in [each for each in found if each == forgotten or each.startswith(f"{forgotten}/")]:
                del found[log_id]
        else:
            found.setdefault(record.log_id, []).append(record)
    return found


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
