"""Opening a log, and learning what became of appends after the database or a connection was gone."""

import logging
from typing import Any, NamedTuple

from quiver.log.segment_appender import SegmentLimits
from quiver.model.errors import PartitionOffline, StaleEpoch
from quiver.records.header import HEADER_BYTES
from quiver.storage.port import LogOptions
from quiver.storage.postgres.appending.state import PlannedAppend, PostgresLogState, SegmentTotals
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.errors import unavailable

logger = logging.getLogger(__name__)

END = 2**63 - 1
TAKEN_OVER = "another broker has taken it over"


class Found(NamedTuple):
    append: PlannedAppend
    is_stored: bool


class AppendRecovery:
    """The owner of a log is the start epoch of whoever opened it: it tells a log that was taken over from one that
    the same owner took again, and a later start from an earlier one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self, state: PostgresLogState) -> None:
        """Creates the log or takes it over. StaleEpoch where a later start has opened it."""
        row = await self._database.fetch_row("open_log", state.log_id, state.owner)
        if row is None:
            raise StaleEpoch(epoch=state.owner, current="that of another broker")
        await self.load(state, row)

    async def load(self, state: PostgresLogState, row: Any, *, while_away: bool = False) -> None:
        closed = await self._database.fetch("segments", row["id"], while_away=while_away)
        extents = await self._database.fetch(
            "frame_extents", row["id"], row["active_offset"], END, while_away=while_away
        )
        active = SegmentTotals(row["active_offset"])
        for _, _, message_count, priority, size_bytes, time_ms in extents:
            active.add(size_bytes, time_ms, priority, message_count)
        state.load(row, [SegmentTotals.from_row(each) for each in closed], active)

    async def take_again(self, state: PostgresLogState) -> Any:
        """After this nothing that was sent before is stored. StaleEpoch where another broker has the log."""
        row = await self._database.fetch_row("take_again", state.id, state.owner, while_away=True)
        if row is None:
            state.failure = TAKEN_OVER
            raise StaleEpoch(epoch=state.owner_epoch, current="that of another broker")
        return row

    async def reload(self, state: PostgresLogState) -> None:
        """Reads everything again. Frames that the database has lost are left to `look`, buffered ones to a replay."""
        if state.buffered_from is not None:
            raise unavailable("its messages in the local buffer come first")
        row = await self.take_again(state)
        state.owner_epoch = row["owner_epoch"]
        if not state.unsynced_from(row["end_offset"]):
            await self.load(state, row)
        state.is_stale = False

    async def look(self, state: PostgresLogState, append: PlannedAppend) -> Found:
        """What became of an append: it is stored, or it is to be sent as it is returned."""
        row = await self.take_again(state)
        end = row["end_offset"]
        state.owner_epoch = row["owner_epoch"]
        if append.frames and end == append.plan.end_offset and await self._is_last(state, append):
            return Found(append, is_stored=True)
        if end == state.frames_end:
            return Found(append, is_stored=False)
        lost = state.unsynced_from(end)
        if end > state.frames_end or not lost:
            raise self.behind(state, end)
        logger.warning("%s: the database had lost frames from %d on, which are stored again", state.log_id, end)
        base = PostgresLogState(state.log_id, state.owner, state.limits)
        await self.load(base, row, while_away=True)
        base.end_offset = base.frames_end
        new = [frame for frame in append.frames if frame.header.base_offset >= state.frames_end]
        again = PlannedAppend(base, [*lost, *new])
        again.reserved_offset = max(append.reserved_offset, base.reserved_offset)
        return Found(again, is_stored=False)

    async def _is_last(self, state: PostgresLogState, append: PlannedAppend) -> bool:
        last = append.frames[-1].header
        row = await self._database.fetch_row(
            "header_at", state.id, append.plan.end_offset, last.base_offset, while_away=True
        )
        return row is not None and row["header"] == append.stored[-1][:HEADER_BYTES]

    def behind(self, state: PostgresLogState, end: int) -> PartitionOffline:
        state.failure = (
            f"the database ends at offset {end}, but {state.frames_end} was confirmed; if an older copy of the "
            "database was promoted or restored, what is missing is lost"
        )
        return PartitionOffline(partition=state.log_id, problem=state.failure)


def segment_limits(options: LogOptions) -> SegmentLimits:
    return SegmentLimits(options.segment_bytes, options.roll_after_ms)
