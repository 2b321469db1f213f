"""Compaction of frames in memory: worked out in a thread, put in place on the loop."""

import asyncio
from collections.abc import Sequence

from quiver.log.compaction.grouping import groups
from quiver.log.compaction.job import Scope, Shape, Surveyed
from quiver.log.compaction.key_hash import SEED_BYTES
from quiver.log.compaction.progress import Pass, Progress
from quiver.log.compaction.rewriting import surviving_frames
from quiver.log.compaction.segment_pass import survey_again
from quiver.log.compaction.source import MemorySource
from quiver.log.memory_frames import MemoryFrames, MemorySegment
from quiver.storage.port import Compacted, Compaction, Dirt
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads

_Replacement = tuple[list[MemorySegment], MemorySegment]


class MemoryCompaction:
    def __init__(self, frames: MemoryFrames, randomness: Randomness, threads: Threads) -> None:
        self._frames = frames
        self._randomness = randomness
        self._threads = threads
        self.progress = Progress()
        self._turn = asyncio.Lock()

    def cut(self, offset: int) -> None:
        """The log was cut at an offset."""
        self.progress = self.progress.cut(offset)

    def dirt(self, compaction: Compaction) -> Dirt:
        segments, _ = self._scope(compaction)
        return Dirt(
            sum(each.size_bytes for each in segments if each.base_offset >= self.progress.clean_to),
            sum(each.size_bytes for each in segments),
            bool(segments) and self.progress.has_old_tombstones(compaction.now_ms, compaction.tombstone_retention_ms),
        )

    async def run(self, compaction: Compaction) -> Compacted:
        async with self._turn:
            dirt = self.dirt(compaction)
            segments, end = self._scope(compaction)
            rest = sum(self._frames.count_by_priority(end)) if end < self._frames.end_offset else 0
            totals, replacements = await self._threads.run(self._work_out, segments, compaction)
            if not compaction.dry_run:
                for old, new in replacements:
                    self._frames.replace(old, new)
                self.progress = self.progress.after(
                    Pass(end, compaction.now_ms),
                    tombstones=totals.tombstones,
                    retention_ms=compaction.tombstone_retention_ms,
                )
            return Compacted(
                totals.records_before + rest, totals.records_after + rest, dirt.dirty_bytes, dirt.total_bytes, end
            )

    def _scope(self, compaction: Compaction) -> tuple[list[MemorySegment], int]:
        """The segments that a pass may touch, and where they end."""
        segments = list(self._frames.segments)
        bounds = [*(segment.base_offset for segment in segments[1:]), self._frames.end_offset]
        last = len(segments) if compaction.dry_run else len(segments) - 1
        count = sum(1 for bound in bounds[:last] if bound <= compaction.end_offset)
        return segments[:count], bounds[count - 1] if count else self._frames.start_offset

    def _work_out(
        self, segments: Sequence[MemorySegment], compaction: Compaction
    ) -> tuple[Surveyed, list[_Replacement]]:
        by_base = {segment.base_offset: segment for segment in segments}
        sources = [MemorySource(segment.base_offset, list(segment.frames)) for segment in segments]
        scope = Scope(
            clean_to=self.progress.clean_to,
            tombstones_below=self.progress.tombstones_below(compaction.now_ms, compaction.tombstone_retention_ms),
            aborted=compaction.aborted,
            max_keys=2**62,
        )
        result = survey_again(sources, scope, self._randomness.token(SEED_BYTES))
        shape = Shape(segment_bytes=self._frames.limits.segment_bytes, max_span_ms=compaction.max_span_ms)
        replacements: list[_Replacement] = []
        for group in [] if compaction.dry_run else groups(result.segments, result.totals.damaged, shape):
            new = MemorySegment(group[0].source.base_offset)
            for frame in surviving_frames(group, frame_bytes=shape.frame_bytes):
                new.add(frame)
            replacements.append(([by_base[each.source.base_offset] for each in group], new))
        return result.totals, replacements
