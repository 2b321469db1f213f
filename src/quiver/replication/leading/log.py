"""A replicated log at its leader: the local log, readable up to the watermark."""

from collections.abc import Callable, Sequence

import msgspec

from quiver.model.errors import Closed, NotEnoughReplicas, NotSupported, OffsetOutOfRange, QuiverError
from quiver.records.header import StampedFrame
from quiver.replication.leading.leading import Leading
from quiver.replication.leading.led_log import CompactionOrder, LedLog
from quiver.storage.port import Compacted, Compaction, Dirt, FrameSlice, LastFrame, LogOptions, Snapshot


class ReplicatedLog:
    """A `Log`. Once another node leads, appends raise NotLeader, and the object is of no further use."""

    def __init__(self, led: LedLog, leading: Leading) -> None:
        self._led, self._local, self._leading = led, led.log, leading
        self.is_closed = False

    @property
    def leader_epoch(self) -> int:
        """What frames that are appended must have."""
        return self._leading.start_epoch

    @property
    def is_over(self) -> bool:
        """Another node leads, or the log was removed."""
        return self._leading.is_closed or self._led.is_removed

    @property
    def start_offset(self) -> int:
        return self._local.start_offset

    @property
    def end_offset(self) -> int:
        return self._local.end_offset

    @property
    def last_frame(self) -> LastFrame:
        return self._local.last_frame

    @property
    def readable_offset(self) -> int:
        return max(self._local.start_offset, min(self._led.progress.watermark, self._local.readable_offset))

    @property
    def size_bytes(self) -> int:
        return self._local.size_bytes

    @property
    def last_append_time_ms(self) -> int:
        return self._local.last_append_time_ms

    @property
    def failure(self) -> str | None:
        return self._local.failure

    @property
    def outage(self) -> QuiverError | None:
        count, needed = len(self._leading.leader.unit.isr), self._led.progress.needed
        if count < needed:
            return NotEnoughReplicas(what=self._led.log_id, count=count, wanted=needed)
        return self._local.outage

    @property
    def has_buffer(self) -> bool:
        return False

    @property
    def is_buffering(self) -> bool:
        return False

    def notify_readable(self, raised: Callable[[], None]) -> None:
        """The watermark rises for appends that nobody waits for any more, too."""
        self._led.on_watermark = raised

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        """Returns when the frames are committed, also without `sync`: then, with a durability below `fsync`, when all
        that count have written them. Those that are appended `alone` may be lost with this node until then."""
        self._check_open()
        if frames:
            await self._leading.append(self._led, frames, alone=alone)

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        self._check_open()
        return not frames

    def begin_append(self, frames: Sequence[StampedFrame], on_end: Callable[[Exception | None], None]) -> bool:
        return False

    async def sync(self) -> None:
        await self._leading.synced(self._led)

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        readable = self.readable_offset
        if not self.start_offset <= offset <= self.end_offset:
            await self._local.read(offset, max_bytes=max_bytes)  # it knows the sentence of the error
            raise OffsetOutOfRange(offset=offset, start=self.start_offset, end=self.end_offset)
        end = readable if end_offset is None else min(end_offset, readable)
        return None if offset >= end else await self._local.read(offset, max_bytes=max_bytes, end_offset=end)

    async def offset_for_time(self, time_ms: int) -> int:
        return await self._local.offset_for_time(time_ms)

    async def end_offset_of_epoch(self, epoch: int) -> int:
        return await self._local.end_offset_of_epoch(epoch)

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        found = await self._local.find_priority(offset, priorities)
        return None if found is None or found >= self.readable_offset else found

    async def count_by_priority(self, offset: int) -> list[int]:
        readable = self.readable_offset
        counts = await self._local.count_by_priority(offset)
        if readable >= self._local.readable_offset or offset >= readable:
            return counts if offset < readable else [0] * len(counts)
        beyond = await self._local.count_by_priority(readable)
        return [all_of - later for all_of, later in zip(counts, beyond, strict=True)]

    async def truncate(self, offset: int) -> None:
        """Only a new leader takes back what was written, and only what was never committed."""
        raise NotSupported(feature="truncating a replicated log")

    # what followers repeat

    async def skip_to(self, offset: int) -> None:
        self._check_open()
        async with self._led.turn:
            await self._local.skip_to(offset)
        self._leading.skipped(self._led)

    async def drop_front(self, offset: int) -> int:
        """Followers drop it with the next call to them, when they have the snapshot that takes its place."""
        self._check_open()
        async with self._led.turn:
            start = await self._local.drop_front(min(offset, self.readable_offset))
        self._leading.tell(self._led)
        return start

    async def roll(self) -> None:
        self._check_open()
        async with self._led.turn:
            await self._local.roll()

    async def compact(self, compaction: Compaction) -> Compacted:
        """Not beyond what replicas have that catch up: they would lack tombstones for what they have already."""
        self._check_open()
        end = min(compaction.end_offset, self.readable_offset, self._leading.followed_to(self._led))
        compaction = msgspec.structs.replace(compaction, end_offset=end)
        if not compaction.dry_run:
            self._led.compacting_to = end
        compacted = await self._local.compact(compaction)
        if not compaction.dry_run:
            self._led.compacting_to, before = 0, self._led.compaction
            number = 1 if before is None else before.number + 1
            self._led.compaction = CompactionOrder(number, compaction, self._led.snapshot_offset)
            self._leading.tell(self._led)
        return compacted

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._check_open()
        await self._leading.committed(self._led, min(offset, self._local.last_frame.end_offset))
        await self._local.save_snapshot(offset, data, sync=sync)
        self._led.snapshot_offset = offset
        self._leading.tell(self._led)

    # what is the same as on one node

    def removed_count(self, offset: int) -> int:
        return self._local.removed_count(offset)

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        return await self._local.retention_offset(
            now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes
        )

    @property
    def clean_to(self) -> int:
        return self._local.clean_to

    def dirt(self, compaction: Compaction) -> Dirt:
        return self._local.dirt(compaction)

    async def load_snapshot(self) -> Snapshot | None:
        return await self._local.load_snapshot()

    @property
    def snapshot_problems(self) -> Sequence[str]:
        return self._local.snapshot_problems

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        self._local.refuse_snapshot(offset, problem)

    def configure(self, options: LogOptions) -> None:
        self._leading.configure(self._led, options)

    async def close(self) -> None:
        """Nothing is appended through this object any more; the node goes on replicating the log."""
        self.is_closed = True

    def _check_open(self) -> None:
        if self.is_closed:
            raise Closed(what=f"log {self._led.log_id}")
