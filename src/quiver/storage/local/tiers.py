"""Where the frames of a log are: in segment files, and with durability `memory` in memory after those."""

from quiver.log.memory_frames import MemoryFrames
from quiver.log.segment_appender import SegmentLimits
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed
from quiver.records.header import HEADER_BYTES, StampedFrame, read_stamped_header
from quiver.storage.memory.compaction import MemoryCompaction
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads


class MemoryTier:
    """Frames in memory, and their compaction."""

    __slots__ = ("compaction", "frames")

    def __init__(self, frames: MemoryFrames, randomness: Randomness, threads: Threads) -> None:
        self.frames = frames
        self.compaction = MemoryCompaction(frames, randomness, threads)


class LogTiers:
    """Shared by the parts of one log; `memory` is there while something is kept in memory."""

    __slots__ = ("disk", "is_closed", "is_released", "memory")

    def __init__(self, disk: SegmentLog) -> None:
        self.disk = disk
        self.memory: MemoryTier | None = None
        self.is_closed = False
        self.is_released = False
        """Closing is done: nothing holds the files any more."""

    @property
    def start_offset(self) -> int:
        if self.memory is not None and not self.disk.view.size_bytes:
            return self.memory.frames.start_offset
        return self.disk.view.start_offset

    @property
    def end_offset(self) -> int:
        memory = self.memory
        return self.disk.view.tail.end_offset if memory is None else memory.frames.end_offset

    def check_open(self) -> None:
        if self.is_closed:
            raise self.closed()

    def closed(self) -> Closed:
        return Closed(what=f"log {self.disk.log_id}")

    def frames_after_files(self, limits: SegmentLimits) -> MemoryFrames:
        """An empty log in memory that goes on where the files end. Blocks: it closes the active segment."""
        disk = self.disk
        disk.appender.roll()
        tail = disk.view.tail
        frames = MemoryFrames(disk.log_id, tail.end_offset, limits, removed=disk.removed)
        frames.follow(
            frames_end=tail.frames_end,
            last_append_time_ms=tail.last_append_time_ms,
            epochs=disk.epochs(),
            last_epoch=tail.last_epoch,
        )
        return frames

    def spill(self) -> None:
        """Writes what is kept in memory to files, after the durability was raised. Blocks."""
        assert self.memory is not None
        kept, appender = self.memory.frames, self.disk.appender
        frames = [
            StampedFrame(read_stamped_header(frame), frame[:HEADER_BYTES], memoryview(frame)[HEADER_BYTES:])
            for frame in kept.frames()
        ]
        if frames:
            appender.append(frames, appender.plan(frames), sync=True)
        self.disk.skip_to(kept.end_offset)
        self.memory = None
