"""A Log on local files: the asynchronous shell around `quiver.log`."""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from quiver.log.segment.damage import Damage
from quiver.log.segment_appender import AppendPlan, SegmentLimits
from quiver.log.segment_log import SegmentLog
from quiver.model.limits import KIB
from quiver.records.header import StampedFrame
from quiver.storage.local.compaction import LocalCompaction
from quiver.storage.local.reader import LocalReader
from quiver.storage.local.resources import LocalResources
from quiver.storage.local.tiers import LogTiers, MemoryTier
from quiver.storage.local.wal.appends import OnEnd, WalAppends
from quiver.storage.local.write_behind import WriteBehind
from quiver.storage.log_turn import LogTurn
from quiver.storage.memory.snapshots import MemorySnapshots
from quiver.storage.port import Compacted, Compaction, Dirt, FrameSlice, LastFrame, LogOptions, Snapshot

WRITE_ON_LOOP_BYTES = 256 * KIB


def segment_limits(options: LogOptions) -> SegmentLimits:
    return SegmentLimits(options.segment_bytes, options.roll_after_ms)


class LocalLog:
    """Frames in segment files; with durability `memory`, frames in memory after whatever the files hold.

    Changes take turns (`_turn`); reads run concurrently. A small append of an `interval` log happens at once, on the
    loop, when it is a single write to an open file; everything else is done in a thread.
    """

    def __init__(self, disk: SegmentLog, options: LogOptions, resources: LocalResources) -> None:
        self.log_id = disk.log_id
        self._disk = disk
        self._view = disk.view
        self._options = options
        self._resources = resources
        self._tiers = LogTiers(disk)
        self._reader = LocalReader(self._tiers, resources.reads)
        self._turn = LogTurn()
        self._behind = WriteBehind(disk, resources.background, resources.flusher)
        self._compaction = LocalCompaction(disk, resources, self._turn)
        self._memory_snapshots = MemorySnapshots()
        self.wal_appends = WalAppends(disk, self._tiers, self._turn, resources)

    @property
    def is_released(self) -> bool:
        """It is closed, and nothing holds its files any more: they may be opened again."""
        return self._tiers.is_released

    @property
    def start_offset(self) -> int:
        return self._view.start_offset if self._tiers.memory is None else self._tiers.start_offset

    @property
    def end_offset(self) -> int:
        memory = self._tiers.memory
        return self._view.tail.end_offset if memory is None else memory.frames.end_offset

    @property
    def last_frame(self) -> LastFrame:
        memory = self._tiers.memory
        tail = self._view.tail if memory is None else memory.frames
        return LastFrame(tail.last_epoch, tail.frames_end)

    @property
    def readable_offset(self) -> int:
        return self.end_offset

    @property
    def size_bytes(self) -> int:
        memory = self._tiers.memory
        return self._view.size_bytes + (memory.frames.size_bytes if memory is not None else 0)

    @property
    def last_append_time_ms(self) -> int:
        memory = self._tiers.memory
        return self._view.tail.last_append_time_ms if memory is None else memory.frames.last_append_time_ms

    @property
    def failure(self) -> str | None:
        return self._disk.files.failure

    @property
    def outage(self) -> None:
        return None

    @property
    def has_buffer(self) -> bool:
        return False

    @property
    def is_buffering(self) -> bool:
        return False

    def notify_readable(self, raised: Callable[[], None]) -> None:
        """Only appends raise it."""

    @property
    def damage(self) -> list[Damage]:
        """Damaged ranges that were found so far."""
        return self._view.damage

    # appending

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        if not frames or self.append_at_once(frames, sync=sync):
            return
        async with self._turn:
            if self._tiers.is_closed:
                raise self._tiers.closed()
            if self._options.durability == "memory":
                await self._append_to_memory(frames)
                return
            if self._tiers.memory is not None:
                await self._resources.writes.run(self._tiers.spill)
            plan = self._disk.appender.plan(frames)
            is_for_wal = self._options.durability == "fsync" and sync and self._disk.appender.is_ready(plan)
            if is_for_wal and self.wal_appends.takes(plan):
                await self.wal_appends.append(frames, plan)
            else:
                await self._append_in_thread(frames, plan, sync=sync)

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        disk, durability = self._disk, self._options.durability
        if durability == "memory" or (durability == "fsync" and sync) or self._turn.is_taken:
            return False
        if self._tiers.is_closed or self._tiers.memory is not None or self._behind.is_behind:
            return False
        plan = disk.appender.plan(frames)
        if plan.size_bytes > WRITE_ON_LOOP_BYTES:
            return False
        if durability == "interval" and plan.end_offset > disk.reservation.limit:
            return False
        if not disk.appender.is_ready(plan):
            return False
        self._resources.space.take(plan.size_bytes)
        if durability == "fsync" and self.wal_appends.takes(plan):
            self.wal_appends.append_unsynced(frames, plan)
            return True
        disk.appender.publish(disk.appender.write_ready(frames), plan, synced=False)
        self._behind.wrote(plan.size_bytes)
        if durability == "interval":
            self._behind.reserve_ahead(plan.end_offset)
        return True

    def begin_append(self, frames: Sequence[StampedFrame], on_end: OnEnd) -> bool:
        if self._options.durability != "fsync" or self._turn.is_taken or self._tiers.is_closed:
            return False
        if self._tiers.memory is not None:
            return False
        plan = self._disk.appender.plan(frames)
        if not (self._disk.appender.is_ready(plan) and self.wal_appends.takes(plan)):
            return False
        self.wal_appends.begin_append(frames, plan, partial(self._end_append, on_end))
        self._turn.take_at_once()
        return True

    def _end_append(self, on_end: OnEnd, error: Exception | None) -> None:
        self._turn.give_back()
        on_end(error)

    async def _append_in_thread(self, frames: Sequence[StampedFrame], plan: AppendPlan, *, sync: bool) -> None:
        appender, resources = self._disk.appender, self._resources
        resources.space.take(plan.size_bytes)
        if self._options.durability == "fsync":
            await resources.writes.run(appender.append, frames, plan, sync=sync)
            if not sync:
                self._behind.wrote(plan.size_bytes)
            return
        if self._behind.is_behind:
            await self._behind.catch_up()
        try:
            await resources.writes.run(self._reserve_and_append, frames, plan)
        finally:
            self._behind.wrote(plan.size_bytes)
        self._behind.reserve_ahead(plan.end_offset)

    def _reserve_and_append(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> None:
        self._behind.reserve(plan.end_offset)
        self._disk.appender.append(frames, plan, sync=False)

    async def _append_to_memory(self, frames: Sequence[StampedFrame]) -> None:
        disk, tiers, resources = self._disk, self._tiers, self._resources
        disk.files.check_writable()
        if tiers.memory is None:
            empty = await resources.writes.run(tiers.frames_after_files, segment_limits(self._options))
            tiers.memory = MemoryTier(empty, resources.randomness, resources.background)
        end_offset = frames[-1].header.next_offset
        if end_offset > disk.reservation.limit:
            await resources.writes.run(self._behind.reserve, end_offset)
        tiers.memory.frames.append(frames)
        self._behind.reserve_ahead(end_offset)

    async def sync(self) -> None:
        files = self._disk.files
        if await self.wal_appends.sync():
            return
        if files.is_synced:
            files.check_writable()
        else:
            await self._resources.writes.run(files.sync)

    # reading: these return what the reader awaits, with no await of their own between

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int | None = None
    ) -> Coroutine[Any, Any, FrameSlice | None]:
        return self._reader.read(offset, max_bytes=max_bytes, end_offset=end_offset)

    def offset_for_time(self, time_ms: int) -> Coroutine[Any, Any, int]:
        return self._reader.offset_for_time(time_ms)

    def end_offset_of_epoch(self, epoch: int) -> Coroutine[Any, Any, int]:
        return self._reader.end_offset_of_epoch(epoch)

    def find_priority(self, offset: int, priorities: int) -> Coroutine[Any, Any, int | None]:
        return self._reader.find_priority(offset, priorities)

    def count_by_priority(self, offset: int) -> Coroutine[Any, Any, list[int]]:
        return self._reader.count_by_priority(offset)

    # both ends

    async def truncate(self, offset: int) -> None:
        async with self._turn:
            self._tiers.check_open()
            memory, writes = self._tiers.memory, self._resources.writes
            if memory is not None and offset >= memory.frames.start_offset:
                memory.frames.truncate(offset)
                memory.compaction.cut(offset)
            else:
                await writes.run(self._compaction.cut, offset)
                await self._behind.finish()  # a reservation of offsets that is under way would save the old end
                await self.wal_appends.leave()
                await writes.run(self._disk.truncate, offset)
                self._tiers.memory = None
            self._memory_snapshots.remove_above(offset)

    async def skip_to(self, offset: int) -> None:
        async with self._turn:
            self._tiers.check_open()
            if offset > self.end_offset:
                await self._resources.writes.run(self._behind.reserve, offset)
                memory = self._tiers.memory
                if memory is None:
                    self._disk.skip_to(offset)
                else:
                    memory.frames.end_offset = offset

    async def drop_front(self, offset: int) -> int:
        async with self._turn:
            self._tiers.check_open()
            await self._resources.writes.run(self._disk.drop_front, offset)
            if self._tiers.memory is not None:
                self._tiers.memory.frames.drop_front(offset)
            return self.start_offset

    async def roll(self) -> None:
        async with self._turn:
            self._tiers.check_open()
            if self._tiers.memory is not None:
                self._tiers.memory.frames.roll()
            else:
                await self._resources.writes.run(self._disk.appender.roll)

    def removed_count(self, offset: int) -> int:
        return self._disk.removed.message_count(offset, self.start_offset)

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        async with self._turn:
            self._tiers.check_open()
            memory, disk = self._tiers.memory, self._disk
            in_memory, for_disk = disk.end_offset, retention_bytes
            if memory is not None:
                in_memory = memory.frames.retention_offset(
                    now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes
                )
                for_disk = None if retention_bytes is None else max(0, retention_bytes - memory.frames.size_bytes)
            if not self._view.segments:
                return in_memory if memory is not None else self.start_offset
            on_disk = await self._resources.background.run(
                disk.retention_offset, now_ms=now_ms, retention_ms=retention_ms, retention_bytes=for_disk
            )
            return on_disk if on_disk < disk.end_offset else max(on_disk, in_memory)

    # compaction: frames in memory are compacted by themselves, whatever the files hold

    @property
    def clean_to(self) -> int:
        memory = self._tiers.memory
        return (self._compaction if memory is None else memory.compaction).progress.clean_to

    def dirt(self, compaction: Compaction) -> Dirt:
        memory = self._tiers.memory
        return (self._compaction if memory is None else memory.compaction).dirt(compaction)

    async def compact(self, compaction: Compaction) -> Compacted:
        self._tiers.check_open()
        memory = self._tiers.memory
        return await (self._compaction if memory is None else memory.compaction).run(compaction)

    # snapshots

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._tiers.check_open()
        if self._tiers.memory is not None:
            self._memory_snapshots.save(offset, data)
        else:
            await self._resources.background.run(self._disk.save_snapshot, offset, data, sync=sync)

    async def load_snapshot(self) -> Snapshot | None:
        in_memory = self._memory_snapshots.newest(self.end_offset)
        if in_memory is not None or not self._disk.snapshots.offsets:
            return in_memory
        found = await self._resources.reads.run(self._disk.snapshots.newest, self.end_offset)
        return None if found is None else Snapshot(*found)

    @property
    def snapshot_problems(self) -> Sequence[str]:
        problems = self._disk.snapshots.problems
        return list(problems.values()) if problems else ()

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        self._memory_snapshots.remove(offset)
        self._disk.snapshots.refuse(offset, problem)

    # life

    def configure(self, options: LogOptions) -> None:
        self._options = options
        self._disk.appender.limits = segment_limits(options)
        if self._tiers.memory is not None:
            self._tiers.memory.frames.limits = segment_limits(options)

    async def close(self) -> None:
        await self._compaction.stop()
        async with self._turn:
            if not self._tiers.is_closed:
                self._tiers.is_closed = True
                await self._behind.finish()
                await self._resources.writes.run(self._disk.close, self.end_offset)
                self._tiers.is_released = True

    async def discard(self) -> None:
        """Closes the files without a sync: they are about to be removed."""
        await self._compaction.stop()
        async with self._turn:
            if not self._tiers.is_closed:
                self._tiers.is_closed = True
                await self._behind.finish()
                self._resources.flusher.forget(self._behind)
                self._disk.files.discard()
                self._tiers.is_released = True
