"""Compaction of a log in the database: worked out in a thread, put in place segment by segment."""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

import msgspec

from quiver.log.compaction.grouping import groups
from quiver.log.compaction.job import MAX_KEYS, Scope, Shape, Surveyed
from quiver.log.compaction.key_hash import SEED_BYTES
from quiver.log.compaction.progress import Pass
from quiver.log.compaction.rewriting import surviving_frames
from quiver.log.compaction.segment_pass import survey_again
from quiver.log.compaction.source import MemorySource
from quiver.log.compaction.survey import SegmentSurvey
from quiver.model.errors import Closed, Overloaded, StaleEpoch
from quiver.records.header import StampedFrame
from quiver.storage.log_turn import LogTurn
from quiver.storage.port import Compacted, Compaction, Dirt
from quiver.storage.postgres.appending.recovery import TAKEN_OVER
from quiver.storage.postgres.appending.state import PostgresLogState, SegmentTotals
from quiver.storage.postgres.appending.tail_cache import CachedTail
from quiver.storage.postgres.database.statements import sql
from quiver.storage.postgres.resources import PostgresResources

_ATTEMPTS = 5


class _Overtaken(Exception):
    """Retention or a purge took segments away that the pass had to do with."""


class _RowSource(NamedTuple):
    """The frames of a segment, read when they are needed. Used in a thread, while the loop runs."""

    base_offset: int
    end_offset: int
    compaction: "PostgresCompaction"
    loop: asyncio.AbstractEventLoop
    is_sound: bool = True

    def frames(self) -> Iterator[StampedFrame]:
        reading: Future[list[bytes]] = asyncio.run_coroutine_threadsafe(
            self.compaction.frames_between(self.base_offset, self.end_offset), self.loop
        )
        return MemorySource(self.base_offset, reading.result()).frames()


class PostgresCompaction:
    """`turn` is the log's own: a pass takes it while it replaces segments."""

    def __init__(
        self, state: PostgresLogState, resources: PostgresResources, turn: LogTurn, tail: CachedTail
    ) -> None:
        self._state = state
        self._resources = resources
        self._turn = turn
        self._tail = tail
        self._pass_turn = asyncio.Lock()
        self._task: asyncio.Task[Compacted] | None = None
        self._stopped = False

    def dirt(self, compaction: Compaction) -> Dirt:
        segments, _ = self._scope(compaction)
        progress = self._state.progress
        return Dirt(
            sum(each.size_bytes for each in segments if each.base_offset >= progress.clean_to),
            sum(each.size_bytes for each in segments),
            bool(segments) and progress.has_old_tombstones(compaction.now_ms, compaction.tombstone_retention_ms),
        )

    async def run(self, compaction: Compaction) -> Compacted:
        async with self._pass_turn:
            if self._stopped:
                raise Closed(what=f"log {self._state.log_id}")
            self._task = asyncio.create_task(self._run_until_done(compaction))
            try:
                return await self._task
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if self._stopped and not (task is not None and task.cancelling()):
                    raise Closed(what=f"log {self._state.log_id}") from None
                raise
            finally:
                self._task = None

    async def stop(self) -> None:
        """Ends a pass that is under way; what it has put in place stays."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run_until_done(self, compaction: Compaction) -> Compacted:
        for _ in range(_ATTEMPTS):
            try:
                return await self._run(compaction)
            except _Overtaken:
                continue
        raise Overloaded(problem=f"segments of {self._state.log_id} go faster than they are compacted")

    async def _run(self, compaction: Compaction) -> Compacted:
        state = self._state
        dirt = self.dirt(compaction)
        segments, bounds = self._scope(compaction)
        end = bounds[-1] if bounds else state.start_offset
        rest = sum(sum(each.counts) for each in state.segments[len(segments) :])
        if not segments:
            return Compacted(rest, rest, 0, 0, end)
        totals, surveyed = await self._resources.threads.run(
            self._survey, segments, bounds, compaction, asyncio.get_running_loop()
        )
        if totals.segment_count < len(segments):  # it has seen all the keys that it may
            end = bounds[totals.segment_count - 1]
            rest = sum(sum(each.counts) for each in state.segments[totals.segment_count :])
        if not compaction.dry_run:
            shape = Shape(segment_bytes=self._state.limits.segment_bytes, max_span_ms=compaction.max_span_ms)
            for group in groups(surveyed, totals.damaged, shape):
                frames = await self._resources.threads.run(_survivors, group, shape)
                await self._replace([each.source.base_offset for each in group], frames)
            await self._note_pass(compaction, end, totals)
        return Compacted(
            totals.records_before + rest, totals.records_after + rest, dirt.dirty_bytes, dirt.total_bytes, end
        )

    def _scope(self, compaction: Compaction) -> tuple[list[SegmentTotals], list[int]]:
        """The segments that a pass may touch, and where they end."""
        segments, bounds = self._state.segments, self._state.bounds
        last = len(segments) if compaction.dry_run else len(segments) - 1
        count = sum(1 for bound in bounds[:last] if bound <= compaction.end_offset)
        return segments[:count], bounds[:count]

    def _survey(
        self,
        segments: Sequence[SegmentTotals],
        bounds: Sequence[int],
        compaction: Compaction,
        loop: asyncio.AbstractEventLoop,
    ) -> tuple[Surveyed, Sequence[SegmentSurvey]]:
        progress = self._state.progress
        sources = [
            _RowSource(segment.base_offset, bound, self, loop)
            for segment, bound in zip(segments, bounds, strict=True)
        ]
        scope = Scope(
            clean_to=progress.clean_to,
            tombstones_below=progress.tombstones_below(compaction.now_ms, compaction.tombstone_retention_ms),
            aborted=compaction.aborted,
            max_keys=MAX_KEYS,
        )
        result = survey_again(sources, scope, self._resources.randomness.token(SEED_BYTES))
        return result.totals, result.segments

    async def frames_between(self, base_offset: int, end_offset: int) -> list[bytes]:
        rows = await self._resources.database.fetch("frames_of_segment", self._state.id, base_offset, end_offset)
        return [row[0] for row in rows]

    async def _replace(self, bases: Sequence[int], frames: Sequence[StampedFrame]) -> None:
        async with self._turn:
            state = self._state
            by_base = {segment.base_offset: number for number, segment in enumerate(state.closed)}
            if any(base not in by_base for base in bases):
                raise _Overtaken
            first, last = by_base[bases[0]], by_base[bases[-1]]
            new, end = SegmentTotals(bases[0]), state.bounds[last]
            for frame in frames:
                new.add_frame(frame.header)
            try:
                await self._store(new, frames, end)
            except BaseException:
                state.is_stale = True
                raise
            state.closed[first : last + 1] = [new]
            state.count()
            self._tail.clear()

    async def _store(self, new: SegmentTotals, frames: Sequence[StampedFrame], end: int) -> None:
        state = self._state
        columns = [
            [frame.header.base_offset for frame in frames],
            [frame.header.next_offset for frame in frames],
            [frame.header.append_time_ms for frame in frames],
            [frame.header.message_count for frame in frames],
            [frame.header.priority for frame in frames],
            [b"".join((frame.header_bytes, frame.body)) for frame in frames],
        ]
        async with self._resources.database.transaction() as connection:
            await connection.execute(sql("delete_frames"), state.id, new.base_offset, end)
            await connection.execute(sql("delete_segments"), state.id, new.base_offset, end)
            await connection.execute(sql("insert_frames"), state.id, *columns)
            await connection.execute(sql("add_segment"), state.id, *new.row())
            await self._check_owner(connection.fetch(sql("check_owner"), state.id, state.owner_epoch))

    async def _note_pass(self, compaction: Compaction, end: int, totals: Surveyed) -> None:
        state = self._state
        progress = state.progress.after(
            Pass(end, compaction.now_ms),
            tombstones=totals.tombstones,
            retention_ms=compaction.tombstone_retention_ms,
        )
        data = msgspec.msgpack.encode(progress)
        async with self._turn:
            await self._check_owner(
                self._resources.database.fetch("save_progress", state.id, state.owner_epoch, data)
            )
            state.progress = progress

    async def _check_owner(self, fetching: Awaitable[Sequence[object]]) -> None:
        if not await fetching:
            self._state.failure = TAKEN_OVER
            raise StaleEpoch(epoch=self._state.owner_epoch, current="that of another broker")


def _survivors(group: Sequence[SegmentSurvey], shape: Shape) -> list[StampedFrame]:
    return list(surviving_frames(group, frame_bytes=shape.frame_bytes))
