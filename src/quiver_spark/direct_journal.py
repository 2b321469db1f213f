"""What a journal in a data directory says now: the newest snapshot of a state machine, and every record behind it."""

from collections.abc import Callable
from pathlib import Path

from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import CorruptData
from quiver.records.read import open_frame
from quiver_spark.direct_frames import LOGS, direct_frames
from quiver_spark.direct_log import DirectLog
from quiver_spark.options import ReadOptions
from quiver_spark.ranges import Slice


def replay_journal(
    root: Path, log_id: str, *, restore: Callable[[bytes], None], apply: Callable[[bytes], None]
) -> None:
    """As the broker does at its start, without writing anything. CorruptData when what is left does not tell all."""
    log = DirectLog(root / LOGS / log_id, log_id)
    log.look()
    offset, files = log.start_offset, log.open_files.files
    snapshot = SnapshotFiles(log.directory, files, files.names(log.directory)).newest(log.end_offset)
    if snapshot is not None:
        offset = snapshot[0]
        if snapshot[1]:
            restore(snapshot[1])
    elif offset > 0:
        raise CorruptData(where=log_id, problem="no snapshot of its beginning is whole", next_offset=offset)
    piece = Slice(log_id, 0, offset, log.end_offset, log=log_id)
    for stored in direct_frames(piece, ReadOptions(path=str(root), committed=False), lambda header: True):
        for record in open_frame(stored.buffer).values():
            apply(record or b"")
    log.forget_files()
