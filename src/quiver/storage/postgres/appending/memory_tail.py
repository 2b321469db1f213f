"""Frames of durability `memory`: kept in memory, after what the database has of the log."""

from quiver.log.memory_frames import MemoryFrames
from quiver.log.removed_front import RemovedFront
from quiver.log.segment_appender import SegmentLimits
from quiver.records.header import StampedFrame
from quiver.storage.memory.compaction import MemoryCompaction
from quiver.storage.postgres.appending.state import PostgresLogState, stamped
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads


class MemoryTail:
    __slots__ = ("compaction", "frames")

    def __init__(
        self,
        state: PostgresLogState,
        limits: SegmentLimits,
        removed: RemovedFront,
        *,
        randomness: Randomness,
        threads: Threads,
    ) -> None:
        self.frames = MemoryFrames(state.log_id, state.end_offset, limits, removed=removed)
        self.frames.follow(
            frames_end=state.frames_end,
            last_append_time_ms=state.last_append_time_ms,
            epochs=state.epochs,
            last_epoch=state.last_epoch,
        )
        self.compaction = MemoryCompaction(self.frames, randomness, threads)

    def stamped_frames(self) -> list[StampedFrame]:
        """All of them, for storing them after all."""
        return [stamped(frame) for frame in self.frames.frames()]
