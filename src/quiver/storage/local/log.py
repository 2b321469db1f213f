"""A Log on local files: the asynchronous shell around `quiver.log`."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from quiver.log.append_plan import AppendPlan, out_of_range
from quiver.log.memory_frames import MemoryFrames
from quiver.log.segment.damage import Damage
from quiver.log.segment.priority_counts import NO_MESSAGES
from quiver.log.segment_log import SegmentLog
from quiver.log.segment_view import Extent
from quiver.log.snapshots import SNAPSHOTS_KEPT
from quiver.model.errors import Closed, CorruptData
from quiver.model.limits import KIB
from quiver.records.header import HEADER_BYTES, StampedFrame, read_stamped_header
from quiver.storage.compactor import Compactor
from quiver.storage.local.compaction import LocalCompaction
from quiver.storage.local.file_slice import FileSlice
from quiver.storage.local.free_space import FreeSpace
from quiver.storage.local.write_behind import FlushSchedule, WriteBehind
from quiver.storage.memory.compaction import MemoryCompaction
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.port import Compacted, Compaction, Dirt, FrameSlice, LogOptions, Snapshot
from quiver.system.randomness import Randomness
from quiver.system.threads import Threads

WRITE_ON_LOOP_BYTES = 256 * KIB
T = TypeVar("T")


class Engine(FlushSchedule, Protocol):
    """What a log needs of its storage."""

    writes: Threads
    reads: Threads
    background: Threads
    space: FreeSpace
    compactor: Compactor
    randomness: Randomness

    def closed(self, log: "LocalLog") -> None:
        """The log is closed and may be opened again."""
        ...


class LocalLog:
    """Frames in segment files; with durability `memory`, frames in memory behind whatever the files hold.

    Changes take turns (`_turn`); reads run beside them. A small append of an `interval` log happens at once, on the
    loop, when it is a single write to an open file; everything else is done in a thread.
    """

    def __init__(self, engine: Engine, disk: SegmentLog, options: LogOptions) -> None:
        self._engine = engine
        self._disk = disk
        self._options = options
        self._memory: MemoryFrames | None = None
        self._memory_snapshots: list[Snapshot] = []
        self._turn = asyncio.Lock()
        self._behind = WriteBehind(disk, engine.background, engine)
        self._closed = False
        self._compaction = LocalCompaction(disk, engine, self._turn)
        self._memory_compaction: MemoryCompaction | None = None

    @property
    def log_id(self) -> str:
        return self._disk.log_id

    @property
    def start_offset(self) -> int:
        if self._memory is not None and not self._disk.size_bytes:
            return self._memory.start_offset
        return self._disk.start_offset

    @property
    def end_offset(self) -> int:
        memory = self._memory
        return self._disk.tail.end_offset if memory is None else memory.end_offset

    @property
    def readable_offset(self) -> int:
        return self.end_offset

    @property
    def size_bytes(self) -> int:
        return self._disk.size_bytes + (self._memory.size_bytes if self._memory is not None else 0)

    @property
    def last_append_time_ms(self) -> int:
        memory = self._memory
        return self._disk.tail.last_append_time_ms if memory is None else memory.last_append_time_ms

    @property
    def failure(self) -> str | None:
        return self._disk.failure

    @property
    def damage(self) -> list[Damage]:
        """Damaged ranges that were found so far."""
        return self._disk.damage

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> None:
        if not frames or self.append_at_once(frames, sync=sync):
            return
        async with self._turn:
            self._check_open()
            if self._options.durability == "memory":
                await self._append_to_memory(frames)
                return
            if self._memory is not None:
                await self._engine.writes.run(self._spill)
            await self._append_in_thread(frames, sync=sync)

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        disk, durability = self._disk, self._options.durability
        if durability == "memory" or (durability == "fsync" and sync) or self._turn.locked():
            return False
        if self._closed or self._memory is not None or self._behind.is_behind:
            return False
        plan = disk.plan(frames)
        if plan.size_bytes > WRITE_ON_LOOP_BYTES:
            return False
        if durability == "interval" and not disk.reservation.covers(plan.end_offset):
            return False
        if not disk.is_ready(plan):
            return False
        self._engine.space.take(plan.size_bytes)
        disk.append(frames, plan, sync=False)
        self._behind.wrote(plan.size_bytes)
        if durability == "interval":
            self._behind.reserve_ahead(plan.end_offset)
        return True

    async def _append_in_thread(self, frames: Sequence[StampedFrame], *, sync: bool) -> None:
        plan = self._disk.plan(frames)
        self._engine.space.take(plan.size_bytes)
        if self._options.durability == "fsync":
            await self._engine.writes.run(self._disk.append, frames, plan, sync=sync)
            if not sync:
                self._behind.wrote(plan.size_bytes)
            return
        if self._behind.is_behind:
            await self._behind.catch_up()
        try:
            await self._engine.writes.run(self._reserve_and_append, frames, plan)
        finally:
            self._behind.wrote(plan.size_bytes)
        self._behind.reserve_ahead(plan.end_offset)

    def _reserve_and_append(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> None:
        self._behind.reserve(plan.end_offset)
        self._disk.append(frames, plan, sync=False)

    async def _append_to_memory(self, frames: Sequence[StampedFrame]) -> None:
        disk = self._disk
        disk.check_writable()
        if self._memory is None:
            await self._engine.writes.run(disk.roll)
            self._memory = MemoryFrames(
                disk.log_id,
                disk.end_offset,
                segment_bytes=self._options.segment_bytes,
                roll_after_ms=self._options.roll_after_ms,
                removed=disk.removed,
            )
            self._memory_compaction = MemoryCompaction(self._memory, self._engine.randomness)
            self._memory.last_epoch = disk.tail.last_epoch
            self._memory.last_append_time_ms = disk.tail.last_append_time_ms
        end_offset = frames[-1].header.next_offset
        if not disk.reservation.covers(end_offset):
            await self._engine.writes.run(self._behind.reserve, end_offset)
        self._memory.append(frames)
        self._behind.reserve_ahead(end_offset)

    def _spill(self) -> None:
        """Writes what was kept in memory to files, after the durability was raised."""
        memory = self._memory
        assert memory is not None
        frames = [
            StampedFrame(read_stamped_header(frame), frame[:HEADER_BYTES], memoryview(frame)[HEADER_BYTES:])
            for frame in memory.frames()
        ]
        if frames:
            self._disk.append(frames, self._disk.plan(frames), sync=True)
        self._disk.skip_to(memory.end_offset)
        self._memory = self._memory_compaction = None

    async def sync(self) -> None:
        await self._engine.writes.run(self._disk.sync)

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        self._check_open()
        start, end = self.start_offset, self.end_offset
        if not start <= offset <= end:
            raise out_of_range(self.log_id, offset, start, end)
        limit = end if end_offset is None else min(end, end_offset)
        memory = self._memory
        if offset >= limit:
            return None
        if memory is None or offset < self._disk.end_offset:
            extent = self._disk.read_hot(offset, max_bytes=max_bytes, end_offset=limit)
            if extent is None:
                extent = await self._read_in_thread(offset, max_bytes, limit)
            if extent is not None:
                return FileSlice(extent, self._disk.open_files, self._engine.reads)
        if memory is None:
            return None
        frames = memory.read(max(offset, memory.start_offset), max_bytes=max_bytes, end_offset=limit)
        return None if frames is None else MemorySlice(frames)

    async def _read_in_thread(self, offset: int, max_bytes: int, end_offset: int) -> Extent | None:
        read: list[Extent | None] = []
        segments = self._disk.segments
        try:
            await self._engine.reads.run(
                lambda: read.append(self._disk.read(offset, max_bytes=max_bytes, end_offset=end_offset))
            )
        except asyncio.CancelledError:
            for extent in read:
                if extent is not None:
                    self._disk.open_files.unpin(extent.file)
            raise
        except OSError as error:
            self._check_open()
            if offset < self.start_offset:  # dropped by retention between the look and the read
                raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset) from error
            if self._disk.segments is not segments:  # replaced by compaction between the look and the read
                return await self._read_in_thread(offset, max_bytes, end_offset)
            raise CorruptData(where=self.log_id, problem=str(error), next_offset=self.end_offset) from error
        return read[0]

    async def offset_for_time(self, time_ms: int) -> int:
        if time_ms > self.last_append_time_ms:
            return self.end_offset
        found = await self._search(lambda: self._disk.offset_for_time(time_ms))
        if self._memory is not None and found >= self._disk.end_offset:
            return self._memory.offset_for_time(time_ms)
        return found

    async def end_offset_of_epoch(self, epoch: int) -> int:
        memory = self._memory
        if memory is not None:
            end = memory.end_offset_of_epoch(epoch)
            if end > memory.start_offset:
                return end
        return await self._search(lambda: self._disk.end_offset_of_epoch(epoch))

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        self._check_open()
        memory, disk = self._memory, self._disk
        if offset < disk.end_offset:
            if disk.has_priority_hot(offset, priorities):
                return offset
            if not disk.knows_of_none(offset, priorities):
                found = await self._search(lambda: disk.find_priority(offset, priorities))
                if found is not None:
                    return found
        return None if memory is None else memory.find_priority(offset, priorities)

    async def count_by_priority(self, offset: int) -> list[int]:
        self._check_open()
        memory, disk = self._memory, self._disk
        counts = list(NO_MESSAGES)
        if offset < disk.end_offset:
            known = disk.known_counts() if offset <= disk.start_offset else None
            counts = await self._search(lambda: disk.count_by_priority(offset)) if known is None else known
        if memory is None:
            return counts
        return [count + more for count, more in zip(counts, memory.count_by_priority(offset), strict=True)]

    async def _search(self, search: Callable[[], T]) -> T:
        """A search in a thread; again when retention removed a segment under it, or compaction replaced one."""
        while True:
            segments = self._disk.segments
            try:
                return await self._engine.reads.run(search)
            except OSError as error:
                self._check_open()
                if self._disk.segments is segments:
                    raise CorruptData(where=self.log_id, problem=str(error), next_offset=self.end_offset) from error

    async def truncate(self, offset: int) -> None:
        async with self._turn:
            self._check_open()
            memory = self._memory
            if memory is not None and offset >= memory.start_offset:
                memory.truncate(offset)
                if self._memory_compaction is not None:
                    self._memory_compaction.cut(offset)
            else:
                await self._engine.writes.run(self._compaction.cut, offset)
                await self._engine.writes.run(self._disk.truncate, offset)
                self._memory = self._memory_compaction = None
            self._memory_snapshots = [each for each in self._memory_snapshots if each.offset <= offset]

    async def drop_front(self, offset: int) -> int:
        async with self._turn:
            self._check_open()
            await self._engine.writes.run(self._disk.drop_front, offset)
            if self._memory is not None:
                self._memory.drop_front(offset)
            return self.start_offset

    async def roll(self) -> None:
        async with self._turn:
            self._check_open()
            if self._memory is not None:
                self._memory.roll()
            else:
                await self._engine.writes.run(self._disk.roll)

    def removed_count(self, offset: int) -> int:
        return self._disk.removed.message_count(offset, self.start_offset)

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        async with self._turn:
            self._check_open()
            memory, disk = self._memory, self._disk
            in_memory, for_disk = disk.end_offset, retention_bytes
            if memory is not None:
                in_memory = memory.retention_offset(
                    now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes
                )
                for_disk = None if retention_bytes is None else max(0, retention_bytes - memory.size_bytes)
            if not disk.segments:
                return in_memory if memory is not None else self.start_offset
            on_disk = await self._engine.background.run(
                disk.retention_offset, now_ms=now_ms, retention_ms=retention_ms, retention_bytes=for_disk
            )
            return on_disk if on_disk < disk.end_offset else max(on_disk, in_memory)

    @property
    def clean_to(self) -> int:
        return (self._memory_compaction or self._compaction).progress.clean_to

    def dirt(self, compaction: Compaction) -> Dirt:
        return (self._memory_compaction or self._compaction).dirt(compaction)

    async def compact(self, compaction: Compaction) -> Compacted:
        """Frames in memory are compacted by themselves, whatever the files hold."""
        self._check_open()
        if self._memory_compaction is not None:
            return await self._memory_compaction.run(compaction)
        return await self._compaction.run(compaction)

    async def save_snapshot(self, offset: int, data: bytes) -> None:
        self._check_open()
        if self._memory is not None:
            others = [each for each in self._memory_snapshots if each.offset != offset]
            self._memory_snapshots = sorted([*others, Snapshot(offset, data)])[-SNAPSHOTS_KEPT:]
        else:
            await self._engine.background.run(self._disk.save_snapshot, offset, data)

    async def load_snapshot(self) -> Snapshot | None:
        for snapshot in reversed(self._memory_snapshots):
            if snapshot.offset <= self.end_offset:
                return snapshot
        found = await self._engine.reads.run(self._disk.snapshots.newest, self.end_offset)
        return None if found is None else Snapshot(*found)

    @property
    def snapshot_problems(self) -> Sequence[str]:
        return list(self._disk.snapshots.problems.values())

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        self._memory_snapshots = [each for each in self._memory_snapshots if each.offset != offset]
        self._disk.snapshots.refuse(offset, problem)

    def configure(self, options: LogOptions) -> None:
        self._options = options
        for frames in (self._disk, self._memory):
            if frames is not None:
                frames.segment_bytes = options.segment_bytes
                frames.roll_after_ms = options.roll_after_ms

    async def close(self) -> None:
        await self._compaction.stop()
        async with self._turn:
            if self._closed:
                return
            self._closed = True
            await self._behind.finish()
            await self._engine.writes.run(self._disk.close, self.end_offset)
            self._engine.closed(self)

    async def discard(self) -> None:
        """Closes the files without a sync: they are about to be removed."""
        await self._compaction.stop()
        async with self._turn:
            if not self._closed:
                self._closed = True
                await self._behind.finish()
                self._disk.discard()
                self._engine.closed(self)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(what=f"log {self.log_id}")
