"""Compaction of a log on local files: what a pass is about, and putting its segments in place one by one."""

import asyncio
import contextlib
import errno
from typing import NamedTuple

from quiver.log.compaction.job import MAX_KEYS, Failed, Job, Rewritten, Scope, SegmentFile, Shape, Surveyed
from quiver.log.compaction.key_hash import SEED_BYTES
from quiver.log.compaction.progress import COMPACTED, Pass, Progress, ProgressFile
from quiver.log.compaction.replacement import has_note, replace_segments
from quiver.log.compaction.segment_pass import NEW_SEGMENTS
from quiver.log.files.write_error import storage_error
from quiver.log.segment.segment import Segment
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed, Overloaded, PartitionOffline, QuiverError
from quiver.storage.local.resources import LocalResources
from quiver.storage.log_turn import LogTurn
from quiver.storage.port import Compacted, Compaction, Dirt

_ATTEMPTS = 5
_UNFINISHED = "a compaction could not be finished; it will be when the broker starts again"


class _Range(NamedTuple):
    """What a pass looks at."""

    segments: tuple[Segment, ...]
    sizes: tuple[int, ...]
    bounds: tuple[int, ...]
    """Where each of them ends."""

    @property
    def end_offset(self) -> int:
        return self.bounds[-1]


class _Overtaken(Exception):
    """Retention or a purge took segments away that the pass had to do with."""


class _Outcome(NamedTuple):
    surveyed: Surveyed
    end_offset: int


class LocalCompaction:
    """`turn` is the log's own, of those who change it. A pass takes it only while it replaces segments."""

    def __init__(self, disk: SegmentLog, resources: LocalResources, turn: LogTurn) -> None:
        self._disk = disk
        self._resources = resources
        self._turn = turn
        self.max_keys = MAX_KEYS
        self._file = ProgressFile(disk.files.directory / COMPACTED, disk.files.files)
        self._progress = None if disk.was_compacted else Progress()
        self._pass_turn = asyncio.Lock()
        self._task: asyncio.Task[Compacted] | None = None
        self._stopped = False

    @property
    def progress(self) -> Progress:
        if self._progress is None:
            self._progress = self._file.load()
        return self._progress

    def dirt(self, compaction: Compaction) -> Dirt:
        found = self._range(compaction)
        progress, sizes = self.progress, dict(zip(found.segments, found.sizes, strict=True))
        return Dirt(
            sum(size for segment, size in sizes.items() if segment.base_offset >= progress.clean_to),
            sum(sizes.values()),
            bool(sizes) and progress.has_old_tombstones(compaction.now_ms, compaction.tombstone_retention_ms),
        )

    async def run(self, compaction: Compaction) -> Compacted:
        async with self._pass_turn:
            self._check_usable()
            self._task = asyncio.create_task(self._run_all(compaction))
            try:
                return await self._task
            except asyncio.CancelledError:
                if self._stopped and not _is_cancelled():
                    raise Closed(what=f"log {self._disk.log_id}") from None
                raise
            finally:
                self._task = None

    async def stop(self) -> None:
        """Ends a pass that is under way; what it has put in place stays."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def cut(self, offset: int) -> None:
        """The log is about to be cut at an offset."""
        if self.progress.clean_to > offset:
            cut = self.progress.cut(offset)
            self._file.save(cut)
            self._progress = cut

    async def _run_all(self, compaction: Compaction) -> Compacted:
        """As many passes as it takes: one ends early when it has seen all the keys that it may."""
        before, first = self.progress, await self._run_until_done(compaction)
        last = first
        while before.clean_to < self.progress.clean_to and self.dirt(compaction).dirty_bytes:
            before, last = self.progress, await self._run_until_done(compaction)
        return first._replace(records_after=last.records_after, aborted_below=last.aborted_below)

    async def _run_until_done(self, compaction: Compaction) -> Compacted:
        """One pass, begun again with what is left when it was overtaken."""
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(_Overtaken):
                return await self._run(compaction)
        try:
            return await self._run(compaction)
        except _Overtaken:
            raise Overloaded(problem=f"segments of {self._disk.log_id} go faster than they are compacted") from None

    async def _run(self, compaction: Compaction) -> Compacted:
        dirt, found = self.dirt(compaction), self._range(compaction)
        if not found.segments:
            count = await self._count_from(self._disk.start_offset)
            return Compacted(count, count, 0, 0, self._disk.start_offset)
        rest = await self._count_from(found.end_offset)
        if not compaction.dry_run:
            await self._resources.background.run(self._prepare, found.end_offset)
        try:
            outcome = await self._pass(compaction, found)
        finally:
            if not compaction.dry_run:
                await self._resources.background.run(self._clean_up)
        surveyed, aborted_below = outcome.surveyed, min([outcome.end_offset, *outcome.surveyed.damaged])
        if outcome.end_offset < found.end_offset:
            rest = await self._count_from(outcome.end_offset)
        if not compaction.dry_run:
            await self._resources.background.run(self._note_pass, compaction, outcome)
        return Compacted(
            surveyed.records_before + rest,
            surveyed.records_after + rest,
            dirt.dirty_bytes,
            dirt.total_bytes,
            aborted_below,
        )

    async def _count_from(self, offset: int) -> int:
        return sum(await self._resources.background.run(self._disk.priorities.count_by_priority, offset))

    async def _pass(self, compaction: Compaction, found: _Range) -> _Outcome:
        surveyed: Surveyed | None = None
        old = {segment.base_offset: segment for segment in found.segments}
        async with contextlib.aclosing(self._resources.compactor.reports(self._job(compaction, found))) as reports:
            async for report in reports:
                if isinstance(report, Failed):
                    raise self._error(report, found)
                if isinstance(report, Surveyed):
                    surveyed = report
                    end = found.bounds[report.segment_count - 1]
                elif not await self._replace(tuple(old[base] for base in report.replaced), report):
                    raise _Overtaken  # later segments may lack tombstones for what this one keeps
        if surveyed is None:
            raise QuiverError("the compaction ended before it said anything")
        return _Outcome(surveyed, end)

    async def _replace(self, old: tuple[Segment, ...], report: Rewritten) -> bool:
        async with self._turn:
            self._check_usable()
            try:
                return await self._resources.writes.run(replace_segments, self._disk, old, report)
            except OSError as error:
                raise storage_error(self._disk.log_id, error) from error

    def _range(self, compaction: Compaction) -> _Range:
        tail, segments = self._disk.view.tail, self._disk.view.segments
        bounds = [*(segment.base_offset for segment in segments[1:]), tail.end_offset]
        sizes = [tail.size if segment is tail.segment else segment.size for segment in segments]
        last = len(segments) if compaction.dry_run else len(segments) - 1
        count = sum(1 for bound in bounds[: max(0, last)] if bound <= compaction.end_offset)
        return _Range(segments[:count], tuple(sizes[:count]), tuple(bounds[:count]))

    def _job(self, compaction: Compaction, found: _Range) -> Job:
        damaged = {damage.segment_base for damage in self._disk.view.damage}
        return Job(
            directory=str(self._disk.files.directory),
            segments=[
                SegmentFile(segment.base_offset, size, segment.base_offset not in damaged)
                for segment, size in zip(found.segments, found.sizes, strict=True)
            ],
            scope=Scope(
                clean_to=self.progress.clean_to,
                tombstones_below=self.progress.tombstones_below(compaction.now_ms, compaction.tombstone_retention_ms),
                aborted=compaction.aborted,
                max_keys=self.max_keys,
            ),
            shape=Shape(segment_bytes=self._disk.appender.limits.segment_bytes, max_span_ms=compaction.max_span_ms),
            seed=self._resources.randomness.token(SEED_BYTES),
            dry_run=compaction.dry_run,
        )

    def _prepare(self, end_offset: int) -> None:
        """Frames below an offset will go that only a snapshot remembers, and room is needed for new segments."""
        self._disk.files.check_writable()
        if has_note(self._disk):
            raise PartitionOffline(partition=self._disk.log_id, problem=_UNFINISHED)
        self._resources.space.take(2 * self._disk.appender.limits.segment_bytes)
        try:
            self._clean_up()
            self._disk.snapshots.make_durable(end_offset)
        except OSError as error:
            raise storage_error(self._disk.log_id, error) from error

    def _clean_up(self) -> None:
        if not has_note(self._disk):
            self._disk.files.files.remove_tree(self._disk.files.directory / NEW_SEGMENTS)

    def _note_pass(self, compaction: Compaction, outcome: _Outcome) -> None:
        progress = self.progress.after(
            Pass(outcome.end_offset, compaction.now_ms),
            tombstones=outcome.surveyed.tombstones,
            retention_ms=compaction.tombstone_retention_ms,
        )
        try:
            self._file.save(progress)
        except OSError as error:
            raise storage_error(self._disk.log_id, error) from error
        self._progress = progress

    def _error(self, report: Failed, found: _Range) -> Exception:
        if report.error_number == errno.ENOENT and not set(found.segments) <= set(self._disk.view.segments):
            return _Overtaken()
        return storage_error(self._disk.log_id, OSError(report.error_number, report.problem))

    def _check_usable(self) -> None:
        if self._stopped:
            raise Closed(what=f"log {self._disk.log_id}")


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
