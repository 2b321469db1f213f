"""Copies messages that wait for long to the end of the schedule log, so that a few of them do not keep much of it.

A copy has no time of its own, which marks it as a copy. A copy that is not in the journal is ignored.
"""

import asyncio
from collections.abc import Sequence

from quiver.delays.partition.schedule_log import FRAME_BYTES, ScheduledRow
from quiver.delays.state import DelayState
from quiver.model.limits import MIB
from quiver.partition.partition import Partition
from quiver.records.build import build_frame
from quiver.records.header import unpack_header
from quiver.storage.port import Log

COPIED_AT_ONCE = 1000
COPIED_BYTES = 4 * MIB
_SMALL_LOG_BYTES = 32 * MIB
_WASTE = 4


def is_relocation_due(log: Log, state: DelayState) -> bool:
    """Whether less than a quarter of the log is still needed."""
    held = log.end_offset - log.start_offset
    return log.size_bytes > _SMALL_LOG_BYTES and len(state.pending) * _WASTE < held


async def copy_rows(schedule: Partition, rows: Sequence[ScheduledRow]) -> list[int]:
    """Appends messages again, and returns the new place of each."""
    runs: list[list[int]] = []
    kind, size = None, 0
    for index, row in enumerate(rows):
        own_kind = (row.priority, row.schema_id)
        if own_kind != kind or size + row.size > FRAME_BYTES:
            runs.append([])
            kind, size = own_kind, 0
        runs[-1].append(index)
        size += row.size
    frames = [_frame([rows[index] for index in run]) for run in runs]
    appended = await asyncio.gather(*(schedule.append(frame, unpack_header(frame)) for frame in frames))
    return [place.base_offset + step for place, run in zip(appended, runs, strict=True) for step in range(len(run))]


def _frame(rows: Sequence[ScheduledRow]) -> bytearray:
    return build_frame(
        [row.value for row in rows],
        keys=[row.key for row in rows],
        timestamps_ms=[row.timestamp_ms for row in rows],
        headers=[row.headers for row in rows],
        expires_at_ms=[row.expires_at_ms for row in rows],
        ids=[row.id for row in rows],
        priority=rows[0].priority,
        schema_id=rows[0].schema_id,
    )
