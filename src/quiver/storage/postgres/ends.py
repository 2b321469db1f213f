"""Changes of a log that are no appends: at its front, at its end, and of its segments."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec

from quiver.log.removed_front import RemovedFront
from quiver.log.retention import PassedTimes, SegmentAge, count_to_drop, is_due_to_roll
from quiver.log.segment_appender import SegmentLimits
from quiver.log.segment_view import out_of_range
from quiver.model.errors import InvalidRequest, StaleEpoch, StorageUnavailable
from quiver.storage.postgres.appending.memory_tail import MemoryTail
from quiver.storage.postgres.appending.recovery import END, TAKEN_OVER
from quiver.storage.postgres.appending.state import PostgresLogState, SegmentTotals, encoded_epochs
from quiver.storage.postgres.database.statements import sql
from quiver.storage.postgres.reader import PostgresReader
from quiver.storage.postgres.resources import PostgresResources


class LogEnds:
    """One caller at a time: whoever has the log's turn."""

    def __init__(
        self, state: PostgresLogState, resources: PostgresResources, reader: PostgresReader, removed: RemovedFront
    ) -> None:
        self._state = state
        self._resources = resources
        self._reader = reader
        self._removed = removed
        self._first_times, self._last_times = PassedTimes(), PassedTimes()

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[asyncpg.Connection]:
        """When its outcome is unknown the state is read again before the next change."""
        self._resources.database.check()
        try:
            async with self._resources.database.transaction() as connection:
                yield connection
        except StorageUnavailable:
            self._state.is_stale = True
            raise

    async def refresh(self) -> None:
        """Reads the state again, if a change ended without a response."""
        if self._state.is_stale:
            await self._resources.recovery.reload(self._state)

    async def _fenced(self, connection: asyncpg.Connection, name: str, *values: Any) -> None:
        state = self._state
        if not await connection.fetch(sql(name), state.id, state.owner_epoch, *values):
            state.failure = TAKEN_OVER
            raise StaleEpoch(epoch=state.owner_epoch, current="that of another broker")

    async def reserve(self, offset: int) -> None:
        """Offsets below may be given out: a restart goes on above them."""
        async with self._transaction() as connection:
            await self._fenced(connection, "reserve", offset)
        self._state.reserved_offset = offset

    async def skip_to(self, offset: int, memory: MemoryTail | None) -> None:
        frames = self._state if memory is None else memory.frames
        if offset > frames.end_offset:
            await self.reserve(offset)
            frames.end_offset = offset

    async def roll(self) -> None:
        state = self._state
        if not state.active.size_bytes:
            return
        async with self._transaction() as connection:
            await self._fenced(connection, "roll", state.end_offset)
            await connection.execute(sql("add_segment"), state.id, *state.active.row())
        state.close_active()

    async def drop_front(self, offset: int) -> None:
        state = self._state
        keep = min(state.segment_index(offset), len(state.closed))
        dropped, bounds = state.closed[:keep], state.bounds[:keep]
        if not dropped:
            return
        start = state.segments[keep].base_offset
        for segment, bound in zip(dropped, bounds, strict=True):
            self._removed.add(await self._reader.holes(segment.base_offset, bound, sum(segment.counts)))
        async with self._transaction() as connection:
            await self._fenced(connection, "drop_front", start)
        del state.closed[:keep]
        state.start_offset = start
        state.count()
        ranges = [(segment.base_offset, bound) for segment, bound in zip(dropped, bounds, strict=True)]
        self._resources.cleaner.remove(state.id, ranges)

    async def retention_offset(
        self, limits: SegmentLimits, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None
    ) -> int:
        state = self._state
        active = state.active
        if active.size_bytes and is_due_to_roll(
            size_bytes=active.size_bytes,
            first_append_time_ms=self._first_times.passed(active.base_offset, active.first_time_ms, now_ms),
            now_ms=now_ms,
            roll_after_ms=limits.roll_after_ms,
            retention_bytes=retention_bytes,
        ):
            await self.roll()
        count = count_to_drop(
            [SegmentAge(segment.size_bytes, self._last_time(segment, now_ms)) for segment in state.closed],
            total_bytes=state.size_bytes,
            now_ms=now_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        for times in (self._first_times, self._last_times):
            times.forget_below(state.start_offset)
        return state.segments[count].base_offset if count else state.start_offset

    def _last_time(self, segment: SegmentTotals, now_ms: int) -> int:
        if not segment.size_bytes:
            return 0
        return self._last_times.passed(segment.base_offset, segment.last_time_ms, now_ms)

    async def truncate(self, offset: int) -> None:
        state, database = self._state, self._resources.database
        is_empty = state.start_offset == state.end_offset
        if offset > state.end_offset or (offset == state.end_offset and not is_empty):
            return
        if offset < state.start_offset:
            raise out_of_range(state.log_id, offset, state.start_offset, state.end_offset)
        self._resources.flusher.forget(state)
        last = await database.fetch_row("frame_before", state.id, offset, state.start_offset)
        if last is not None and last["next_offset"] > offset:
            raise InvalidRequest(problem=f"offset {offset} is inside a frame")
        index = state.segment_index(offset)
        active = SegmentTotals(state.segments[index].base_offset)
        for _, _, count, priority, size, time_ms in await database.fetch(
            "frame_extents", state.id, active.base_offset, offset
        ):
            active.add(size, time_ms, priority, count)
        frames_end = min(offset, state.frames_end) if last is None else last["next_offset"]
        epochs = state.epochs.truncated(frames_end)
        last_epoch, last_time_ms = (-1, 0) if last is None else (epochs.latest, last["append_time_ms"])
        progress = state.progress.cut(offset)
        async with self._transaction() as connection:
            await self._fenced(
                connection,
                "truncate",
                frames_end,
                offset,
                active.base_offset,
                last_epoch,
                last_time_ms,
                encoded_epochs(epochs),
                msgspec.msgpack.encode(progress),
            )
            await connection.execute(sql("delete_frames"), state.id, offset, END)
            await connection.execute(sql("delete_segments"), state.id, active.base_offset, END)
            await connection.execute(sql("delete_snapshots_above"), state.id, offset)
        del state.closed[index:]
        state.active, state.epochs, state.progress = active, epochs, progress
        state.frames_end, state.end_offset, state.reserved_offset = frames_end, offset, offset
        state.last_epoch, state.last_append_time_ms = last_epoch, last_time_ms
        state.count()
