"""The names of consumer groups in a data directory, without the broker it belongs to."""

from pathlib import Path

import msgspec

from quiver.groups.events import Event
from quiver.groups.service import LOG_ID as GROUPS_LOG
from quiver.groups.table import GroupTable
from quiver.log.snapshots import SnapshotFiles
from quiver.model.errors import CorruptData
from quiver.records.read import open_frame
from quiver_spark.direct_frames import LOGS, direct_frames
from quiver_spark.direct_log import DirectLog
from quiver_spark.options import ReadOptions
from quiver_spark.ranges import Slice

_EVENT = msgspec.json.Decoder(Event)


def group_names(root: Path) -> dict[int, str]:
    """By id: those that there are now. The newest snapshot of their journal, and every record behind it."""
    log = DirectLog(root / LOGS / GROUPS_LOG, GROUPS_LOG)
    log.look()
    table, offset, files = GroupTable(), log.start_offset, log.open_files.files
    snapshot = SnapshotFiles(log.directory, files, files.names(log.directory)).newest(log.end_offset)
    if snapshot is not None:
        offset = snapshot[0]
        if snapshot[1]:
            table.restore(snapshot[1])
    elif offset > 0:
        raise CorruptData(where=GROUPS_LOG, problem="no snapshot of its beginning is whole", next_offset=offset)
    piece = Slice(GROUPS_LOG, 0, offset, log.end_offset, log=GROUPS_LOG)
    for stored in direct_frames(piece, ReadOptions(path=str(root), committed=False), lambda header: True):
        for record in open_frame(stored.buffer).values():
            table.apply(_EVENT.decode(record or b""))
    log.forget_files()
    return table.names
