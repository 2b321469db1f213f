"""A Log on local files: the asynchronous shell around `quiver.log`."""

import asyncio
import errno
from collections.abc import Sequence
from typing import Protocol

from quiver.log.append_check import AppendPlan, out_of_range
from quiver.log.damage import Damage
from quiver.log.memory_frames import MemoryFrames
from quiver.log.segment_log import SegmentLog
from quiver.log.segment_view import Extent
from quiver.model.errors import Closed, DiskFull, PartitionOffline
from quiver.model.limits import KIB, MIB
from quiver.records.header import StampedFrame
from quiver.storage.file_slice import FileSlice
from quiver.storage.free_space import FreeSpace
from quiver.storage.memory_slice import MemorySlice
from quiver.storage.port import FrameSlice, LogOptions, Snapshot
from quiver.storage.work import Work

WRITE_ON_LOOP_BYTES = 256 * KIB
FLUSH_AT_BYTES = 16 * MIB
MAX_UNSYNCED_BYTES = 64 * MIB


class Engine(Protocol):
    """What a log needs of its storage."""

    work: Work
    space: FreeSpace

    def needs_flush(self, log: "LocalLog") -> None:
        """The log has written what is not synced; it is to be flushed within a second."""
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
        self._unsynced_bytes = 0
        self._flush: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._closed = False

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

    async def append(self, frames: Sequence[StampedFrame]) -> None:
        if not frames:
            return
        if self._options.durability == "interval" and not self._turn.locked() and self._append_at_once(frames):
            return
        async with self._turn:
            self._check_open()
            if self._options.durability == "memory":
                await self._append_to_memory(frames)
                return
            if self._memory is not None:
                await self._engine.work.run(self._spill)
            await self._append_in_thread(frames)

    def _append_at_once(self, frames: Sequence[StampedFrame]) -> bool:
        disk = self._disk
        if self._closed or self._memory is not None or self._unsynced_bytes > MAX_UNSYNCED_BYTES:
            return False
        plan = disk.plan(frames)
        if plan.size_bytes > WRITE_ON_LOOP_BYTES or not disk.reservation.covers(plan.end_offset):
            return False
        if not disk.is_ready(plan):
            return False
        self._engine.space.take(plan.size_bytes)
        disk.append(frames, plan, sync=False)
        self._note_unsynced(plan)
        return True

    async def _append_in_thread(self, frames: Sequence[StampedFrame]) -> None:
        if self._unsynced_bytes > MAX_UNSYNCED_BYTES and self._flush is not None:
            await asyncio.wait([self._flush])
        plan = self._disk.plan(frames)
        self._engine.space.take(plan.size_bytes)
        if self._options.durability == "fsync":
            await self._engine.work.run(self._disk.append, frames, plan, sync=True)
        else:
            await self._engine.work.run(self._reserve_and_append, frames, plan)
            self._note_unsynced(plan)

    def _reserve_and_append(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> None:
        self._reserve(plan.end_offset)
        self._disk.append(frames, plan, sync=False)

    def _reserve(self, end_offset: int) -> None:
        reservation = self._disk.reservation
        if reservation.covers(end_offset):
            return
        try:
            reservation.renew(end_offset, self._disk.state)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise DiskFull(problem=f"no space left for {self._disk.directory}") from error
            self._disk.fail(f"offsets could not be reserved: {error}")
            self._disk.check_writable()

    def _note_unsynced(self, plan: AppendPlan) -> None:
        self._unsynced_bytes += plan.size_bytes
        self._engine.needs_flush(self)
        if self._unsynced_bytes >= FLUSH_AT_BYTES and self._flush is None:
            self._flush = asyncio.create_task(self.flush())
        if self._disk.reservation.is_half_used(plan.end_offset) and self._renewal is None:
            self._renewal = asyncio.create_task(self._renew())

    async def flush(self) -> None:
        """Syncs what is written. A failure takes the log offline and is not raised here."""
        self._unsynced_bytes = 0
        try:
            await self._engine.work.run(self._disk.sync)
        except PartitionOffline:
            pass
        finally:
            if self._flush is asyncio.current_task():
                self._flush = None

    async def _renew(self) -> None:
        try:
            await self._engine.work.run(self._reserve_ahead)
        finally:
            self._renewal = None
