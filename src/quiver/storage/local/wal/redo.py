"""After a crash, what the write-ahead log holds is written to the segments again. Blocking; before logs are open."""

import logging
import re
from collections.abc import Sequence
from pathlib import Path

from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FORGET, WalRecord
from quiver.system.files import Files

_SEGMENT = re.compile(r"(\d{20})\.log")
_logger = logging.getLogger(__name__)


def redo(wal: WalFiles, logs_path: Path, files: Files) -> set[str]:
    """Makes the segments as they were when the records were synced, and durable; returns the logs whose last segment
    is.

    To do it twice changes nothing, so that a crash in the middle needs no care.
    """
    by_log: dict[str, list[WalRecord]] = {}
    for record in wal.records():
        if record.kind == FORGET:
            forgotten = record.log_id
            for log_id in [each for each in by_log if each == forgotten or each.startswith(f"{forgotten}/")]:
                del by_log[log_id]
        else:
            by_log.setdefault(record.log_id, []).append(record)
    synced = {log_id for log_id, records in by_log.items() if _redo_log(logs_path / log_id, records, files)}
    wal.remove_all()
    return synced


def _redo_log(directory: Path, records: Sequence[WalRecord], files: Files) -> bool:
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
        files.fdatasync(fd)
        return True
    finally:
        files.close(fd)
