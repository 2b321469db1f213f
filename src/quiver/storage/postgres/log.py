"""A Log in PostgreSQL: frames are rows."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from quiver.log.removed_front import RemovedFront
from quiver.log.segment_view import out_of_range
from quiver.model.errors import Closed, PartitionOffline, StorageUnavailable
from quiver.records.header import StampedFrame
from quiver.storage.log_turn import LogTurn
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.port import Compacted, Compaction, Dirt, FrameSlice, LastFrame, LogOptions, Snapshot
from quiver.storage.postgres.appending.memory_tail import MemoryTail
from quiver.storage.postgres.appending.pending import PendingAppend, resolve_append
from quiver.storage.postgres.appending.recovery import segment_limits
from quiver.storage.postgres.appending.state import PlannedAppend, PostgresLogState
from quiver.storage.postgres.appending.tail_cache import CachedTail
from quiver.storage.postgres.compaction import PostgresCompaction
from quiver.storage.postgres.ends import LogEnds
from quiver.storage.postgres.reader import PostgresReader
from quiver.storage.postgres.resources import PostgresResources
from quiver.storage.postgres.snapshots import PostgresSnapshots

RESERVED_AHEAD = 1 << 20
OnEnd = Callable[[Exception | None], None]


class PostgresLog:
    """Changes take turns (`_turn`); reads run concurrently with them, and with an append that is under way."""

    def __init__(self, state: PostgresLogState, options: LogOptions, resources: PostgresResources) -> None:
        self.log_id = state.log_id
        self.state = state
        self._resources, self._appends = resources, resources.appends
        self._turn = LogTurn()
        self._tail = CachedTail(resources.cache)
        self._memory: MemoryTail | None = None
        self._reader = PostgresReader(resources.database, state, self._tail, resources.standby)
        self._removed = RemovedFront()
        self._ends = LogEnds(state, resources, self._reader, self._removed)
        self._compaction = PostgresCompaction(state, resources, self._turn, self._tail)
        self._snapshots = PostgresSnapshots(state, resources.database)
        self.is_closed = False
        self._on_readable: Callable[[], None] | None = None
        self.configure(options)

    @property
    def start_offset(self) -> int:
        memory = self._memory
        if memory is not None and not self.state.size_bytes:
            return memory.frames.start_offset
        return self.state.start_offset

    @property
    def end_offset(self) -> int:
        return (self.state if self._memory is None else self._memory.frames).end_offset

    @property
    def last_frame(self) -> LastFrame:
        frames = self.state if self._memory is None else self._memory.frames
        return LastFrame(frames.last_epoch, frames.frames_end)

    @property
    def readable_offset(self) -> int:
        """What is in the local buffer is not read before it is in the database."""
        buffered_from = self.state.buffered_from
        return self.end_offset if buffered_from is None else buffered_from.end_offset

    @property
    def size_bytes(self) -> int:
        memory = self._memory
        return self.state.size_bytes + (0 if memory is None else memory.frames.size_bytes)

    @property
    def last_append_time_ms(self) -> int:
        return (self.state if self._memory is None else self._memory.frames).last_append_time_ms

    @property
    def failure(self) -> str | None:
        return self.state.failure

    @property
    def outage(self) -> StorageUnavailable | None:
        return self._resources.outage

    @property
    def has_buffer(self) -> bool:
        buffer = self._resources.buffer
        return buffer is not None and self._options.buffers_publishes and buffer.problem is None

    @property
    def is_buffering(self) -> bool:
        return self.state.buffered_from is not None

    def notify_readable(self, raised: Callable[[], None]) -> None:
        self._on_readable = raised

    def adopt(self, stored: PostgresLogState) -> None:
        """Everything that was buffered is in the database."""
        self.state.adopt(stored)
        self._resources.flusher.forget(self.state)
        if self._on_readable is not None:
            self._on_readable()

    # appending

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        if not frames:
            return
        async with self._turn:
            await self._prepare_change()
            if self._options.durability == "memory":
                await self._append_to_memory(frames)
                return
            if self._memory is not None:
                await self._spill(self._memory)
            await self._append_now(frames, sync=sync)

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        """Only to memory."""
        if self._options.durability != "memory" or self._memory is None or self._turn.is_taken:
            return False
        self._check_writable()
        if frames and frames[-1].header.next_offset > self.state.reserved_offset:
            return False
        self._memory.frames.append(frames)
        return True

    def begin_append(self, frames: Sequence[StampedFrame], on_end: OnEnd) -> bool:
        if self._options.durability == "memory" or self._memory is not None or self._turn.is_taken:
            return False
        self._check_writable()
        if self.state.is_stale:
            return False
        self._appends.submit(self._pending(self._planned(frames, sync=True), partial(self._end_begun, on_end)))
        self._turn.take_at_once()
        return True

    def _end_begun(self, on_end: OnEnd, error: Exception | None) -> None:
        self._turn.give_back()
        on_end(error)

    def _planned(self, frames: Sequence[StampedFrame], *, sync: bool) -> PlannedAppend:
        state = self.state
        append = PlannedAppend(state, frames)
        if self._options.durability == "fsync" and sync:
            append.reserved_offset = min(state.reserved_offset, append.plan.end_offset)
        elif append.plan.end_offset > state.reserved_offset:
            append.reserved_offset = append.plan.end_offset + RESERVED_AHEAD
        else:
            append.sync = self._resources.flusher.is_full
        return append

    def _pending(self, append: PlannedAppend, on_end: OnEnd) -> PendingAppend:
        return PendingAppend(
            self.state, append, partial(self._stored, on_end), is_publish=self._options.buffers_publishes
        )

    def _stored(self, on_end: OnEnd, append: PlannedAppend | None, error: Exception | None) -> None:
        if append is not None:
            if append.is_buffered:
                self.state.apply_buffered(append)
            else:
                self._apply(append)
            self._resources.cache.add(self._tail, append.frames, append.stored)
        on_end(error)

    def _apply(self, append: PlannedAppend) -> None:
        self.state.apply(append)
        if append.sync:
            self._resources.flusher.forget(self.state)
        else:
            self._resources.flusher.note(self.state, append.stored)

    async def _append_now(self, frames: Sequence[StampedFrame], *, sync: bool) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._appends.submit(self._pending(self._planned(frames, sync=sync), partial(resolve_append, future)))
        await asyncio.shield(future)

    async def _append_to_memory(self, frames: Sequence[StampedFrame]) -> None:
        resources = self._resources
        if self._memory is None:
            await self._ends.roll()
            self._memory = MemoryTail(
                self.state,
                self.state.limits,
                self._removed,
                randomness=resources.randomness,
                threads=resources.threads,
            )
        end_offset = frames[-1].header.next_offset
        if end_offset > self.state.reserved_offset:
            await self._ends.reserve(end_offset + RESERVED_AHEAD)
        self._memory.frames.append(frames)

    async def _spill(self, memory: MemoryTail) -> None:
        """The durability was raised: what is kept in memory is stored."""
        frames = memory.stamped_frames()
        if frames:
            await self._append_now(frames, sync=True)
        self.state.end_offset = max(self.state.end_offset, memory.frames.end_offset)
        self._memory = None

    async def restore_lost(self) -> None:
        """Stores again what the database has lost of commits that were not waited for."""
        async with self._turn:
            if self.is_closed or self.is_buffering:  # a replay of the buffer begins with them
                return
            found = await self._resources.recovery.look(self.state, PlannedAppend(self.state, ()))
            if found.append.frames:
                future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                await self._appends.store(self._pending(found.append, partial(resolve_append, future)))
                await future

    async def sync(self) -> None:
        await self._resources.flusher.sync(self.state)

    # reading

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        self._check_open()
        start, end = self.start_offset, self.end_offset
        readable = min(end, self.readable_offset)
        if not start <= offset <= end:
            raise out_of_range(self.log_id, offset, start, end)
        limit = readable if end_offset is None else min(readable, end_offset)
        if offset >= limit:
            return None
        found = await self._reader.read(offset, max_bytes=max_bytes, end_offset=limit)
        memory = self._memory
        if found is None and memory is not None:
            frames = memory.frames.read(
                max(offset, memory.frames.start_offset), max_bytes=max_bytes, end_offset=limit
            )
            found = None if frames is None else MemorySlice(*frames)
        if found is None and offset < self.start_offset:  # dropped between the look and the read
            raise out_of_range(self.log_id, offset, self.start_offset, self.end_offset)
        return found

    async def offset_for_time(self, time_ms: int) -> int:
        if time_ms > self.last_append_time_ms:
            return self.end_offset
        found = await self._reader.offset_for_time(time_ms)
        if found is not None:
            return found
        memory = self._memory
        return self.end_offset if memory is None else memory.frames.offset_for_time(time_ms)

    async def end_offset_of_epoch(self, epoch: int) -> int:
        frames = self.state if self._memory is None else self._memory.frames
        return frames.epochs.end_offset_of(epoch, start_offset=self.start_offset, end_offset=frames.frames_end)

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        self._check_open()
        found = await self._reader.find_priority(offset, priorities)
        if found is None and self._memory is not None:
            return self._memory.frames.find_priority(offset, priorities)
        return found

    async def count_by_priority(self, offset: int) -> list[int]:
        self._check_open()
        counts = await self._reader.count_by_priority(offset)
        memory = self._memory
        if memory is None:
            return counts
        return [count + more for count, more in zip(counts, memory.frames.count_by_priority(offset), strict=True)]

    # both ends

    async def truncate(self, offset: int) -> None:
        await self.sync()
        async with self._turn:
            await self._prepare_change()
            memory = self._memory
            if memory is not None and offset >= memory.frames.start_offset:
                memory.frames.truncate(offset)
                memory.compaction.cut(offset)
                await self._ends.reserve(memory.frames.end_offset + RESERVED_AHEAD)
            else:
                await self._ends.truncate(offset)
                self._memory = None
                self._tail.clear()
            self._snapshots.remove_above(offset)

    async def skip_to(self, offset: int) -> None:
        async with self._turn:
            await self._prepare_change()
            await self._ends.skip_to(offset, self._memory)

    async def drop_front(self, offset: int) -> int:
        async with self._turn:
            await self._prepare_change()
            await self._ends.drop_front(offset)
            if self._memory is not None:
                self._memory.frames.drop_front(offset)
            return self.start_offset

    async def roll(self) -> None:
        async with self._turn:
            await self._prepare_change()
            if self._memory is not None:
                self._memory.frames.roll()
            else:
                await self._ends.roll()

    def removed_count(self, offset: int) -> int:
        return self._removed.message_count(offset, self.start_offset)

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        async with self._turn:
            await self._prepare_change()
            memory, stored_end = self._memory, self.state.end_offset
            in_memory, for_stored = stored_end, retention_bytes
            if memory is not None:
                in_memory = memory.frames.retention_offset(
                    now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes
                )
                for_stored = None if retention_bytes is None else max(0, retention_bytes - memory.frames.size_bytes)
                if not self.state.size_bytes:
                    return in_memory
            stored = await self._ends.retention_offset(
                self.state.limits, now_ms=now_ms, retention_ms=retention_ms, retention_bytes=for_stored
            )
            return stored if stored < stored_end or memory is None else max(stored, in_memory)

    # compaction

    @property
    def clean_to(self) -> int:
        memory = self._memory
        return self.state.progress.clean_to if memory is None else memory.compaction.progress.clean_to

    def dirt(self, compaction: Compaction) -> Dirt:
        return (self._compaction if self._memory is None else self._memory.compaction).dirt(compaction)

    async def compact(self, compaction: Compaction) -> Compacted:
        self._check_writable()
        return await (self._compaction if self._memory is None else self._memory.compaction).run(compaction)

    # snapshots

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._check_writable()
        await self._snapshots.save(offset, data, in_memory=self._memory is not None)

    async def load_snapshot(self) -> Snapshot | None:
        return await self._snapshots.newest(self.end_offset)

    @property
    def snapshot_problems(self) -> Sequence[str]:
        return self._snapshots.problems

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        self._snapshots.refuse(offset, problem)

    # life

    def configure(self, options: LogOptions) -> None:
        self._options = options
        self.state.limits = segment_limits(options)
        if self._memory is not None:
            self._memory.frames.limits = self.state.limits

    async def close(self) -> None:
        """Gives back the offsets that were reserved, so that the next start goes on without a gap."""
        await self._compaction.stop()
        if self.state.failure is None:
            await self.sync()  # without the turn: frames that the database has lost are appended again
        async with self._turn:
            if self.is_closed:
                return
            self.is_closed = True
            self._tail.clear()
            reserved = self.state.reserved_offset
            if self.state.failure is None and reserved not in (0, self.end_offset):
                await self._ends.reserve(self.end_offset)

    async def discard(self) -> None:
        """Closes it without waiting for the disk: its rows are about to be deleted."""
        await self._compaction.stop()
        async with self._turn:
            self.is_closed = True
            self._tail.clear()
            self._on_readable = None
            self._resources.flusher.forget(self.state)

    def _check_open(self) -> None:
        if self.is_closed:
            raise Closed(what=f"log {self.log_id}")

    async def _prepare_change(self) -> None:
        self._check_writable()
        await self._ends.refresh()

    def _check_writable(self) -> None:
        self._check_open()
        if self.state.failure is not None:
            raise PartitionOffline(partition=self.log_id, problem=self.state.failure)
