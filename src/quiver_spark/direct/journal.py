"""What a journal in a data directory says now: the newest snapshot of a state machine, and every record behind it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import CorruptData
from quiver.records.read import open_frame
from quiver_spark.direct.frames import LOGS, direct_frames
from quiver_spark.direct.log import DirectLog
from quiver_spark.source.options import ReadOptions
from quiver_spark.source.slices import Slice


def replay_journal(
    root: Path, log_id: str, *, restore: Callable[[bytes], None], apply: Callable[[bytes], None]
) -> None:
    """As the broker does at its start, without writing anything. CorruptData when what is left does not tell all."""
    log = DirectLog(root / LOGS / log_id, log_id)
    log.look()
    try:
        offset = _restored(log, restore)
        piece = Slice(log_id, 0, offset, log.end_offset, log=log_id)
        for stored in direct_frames(piece, ReadOptions(path=str(root), committed=False), lambda header: True):
            for record in open_frame(stored.buffer).values():
                apply(record or b"")
    except (msgspec.MsgspecError, ValueError) as error:
        raise _unreadable(log, f"{error}; a newer version of Quiver may have written it") from None
    finally:
        log.forget_files()


def _restored(log: DirectLog, restore: Callable[[bytes], None]) -> int:
    """The offset behind what the newest whole snapshot has."""
    files = log.open_files.files
    snapshot = SnapshotFiles(log.directory, files, files.names(log.directory)).newest(log.end_offset)
    if snapshot is None:
        if log.start_offset > 0:
            raise _unreadable(log, f"it begins at {log.start_offset} and no snapshot is whole")
        return 0
    offset, data = snapshot
    if data:
        restore(data)
    return offset


def _unreadable(log: DirectLog, problem: str) -> CorruptData:
    return CorruptData(
        f"{log.log_id} cannot be read ({problem}): ask the broker instead of its files",
        where=log.log_id,
        problem=problem,
        next_offset=log.end_offset,
    )
