"""What one log appends through the write-ahead log: written to the segment, synced there, then shown to readers."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from quiver.log.files.write_error import storage_error
from quiver.log.segment.segment import Segment
from quiver.log.segment_appender import AppendPlan, Run
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import Closed, PartitionOffline
from quiver.records.header import StampedFrame
from quiver.storage.local.resources import LocalResources
from quiver.storage.local.tiers import LogTiers
from quiver.storage.local.wal.log import SMALL_BYTES, WalBatch
from quiver.storage.log_turn import LogTurn
from quiver.system.files import Buffer

OnEnd = Callable[[Exception | None], None]


class WalAppends:
    """For one caller at a time, on the loop: whoever has the log's turn. Only the write-ahead log calls `flush`.

    It does not refer to its log, so that a log that is removed is freed at once.
    """

    def __init__(self, disk: SegmentLog, tiers: LogTiers, turn: LogTurn, resources: LocalResources) -> None:
        self._disk = disk
        self._tiers = tiers
        self._turn = turn
        self._resources = resources
        self._wal_id = disk.log_id.encode()
        self._in_wal: tuple[int, Segment | None, int] = (0, None, 0)
        """Failures of the WAL so far, and a place in a segment: unsynced bytes before it are in the WAL."""
        self._newest: WalBatch | None = None
        """The batch of the WAL that has the last of them."""
        self._ending: asyncio.Task[None] | None = None
        """Syncs what the WAL could not take, of an append that no task waits for."""

    def takes(self, plan: AppendPlan) -> bool:
        """Whether an append that is ready is small, and all that is unsynced before it is in the write-ahead log."""
        if plan.size_bytes > SMALL_BYTES:
            return False
        tail, synced = self._disk.view.tail, self._disk.files.synced_tail
        if not tail.size or (synced.segment is tail.segment and synced.size == tail.size):
            return True
        return self._in_wal == (self._resources.wal.failures, tail.segment, tail.size)

    def append_unsynced(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> None:
        """Readers see the frames at once; they are on disk with the next batch of the WAL, or within a second."""
        runs = self._disk.appender.write_ready(frames)
        self._add(runs)
        self._disk.appender.publish(runs, plan, synced=False)

    async def append(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> None:
        """Returns when the frames are on disk and readers see them, also when it is cancelled meanwhile."""
        runs, batch = self._write(frames, plan)
        cancelled = await batch.done()
        await self._show(runs, plan, batch)
        if cancelled is not None:
            raise cancelled

    def begin_append(self, frames: Sequence[StampedFrame], plan: AppendPlan, on_end: OnEnd) -> None:
        """As `append`, without a task that waits: `on_end` is called then, with the error if there is one."""
        runs, batch = self._write(frames, plan)
        batch.waiting.append(partial(self._end_append, runs, plan, batch, on_end))

    def _end_append(self, runs: list[Run], plan: AppendPlan, batch: WalBatch, on_end: OnEnd) -> None:
        if not batch.is_on_disk:
            self._ending = asyncio.get_running_loop().create_task(self._end_after_sync(runs, plan, batch, on_end))
            return
        error: Exception | None = None
        try:
            self._disk.appender.publish(runs, plan, synced=False)
        except Exception as problem:
            error = problem
        on_end(error)

    async def _end_after_sync(self, runs: list[Run], plan: AppendPlan, batch: WalBatch, on_end: OnEnd) -> None:
        error: Exception | None = None
        try:
            await self._show(runs, plan, batch)
        except Exception as problem:
            error = problem
        except asyncio.CancelledError:  # the loop ends
            error = Closed(what=f"log {self._disk.log_id}")
        on_end(error)

    def _write(self, frames: Sequence[StampedFrame], plan: AppendPlan) -> tuple[list[Run], WalBatch]:
        self._resources.space.take(plan.size_bytes)
        runs = self._disk.appender.write_ready(frames)
        batch = self._add(runs)
        self._resources.wal.commit()
        return runs, batch

    def _add(self, runs: Sequence[Run]) -> WalBatch:
        wal, (segment, frames) = self._resources.wal, runs[0]
        data: list[Buffer] = []
        size = segment.size
        for header, header_bytes, body in frames:
            data += (header_bytes, body)
            size += header.frame_bytes
        self._in_wal = (wal.failures, segment, size)
        self._newest = wal.add(self, self._wal_id, segment.base_offset, segment.size, data)
        return self._newest

    async def _show(self, runs: list[Run], plan: AppendPlan, batch: WalBatch) -> None:
        """Shows readers what is on disk, after a sync of its own if the write-ahead log could not bring it there."""
        appender = self._disk.appender
        if not batch.is_on_disk:
            await self._resources.writes.run(appender.make_durable, runs)
        appender.publish(runs, plan, synced=not batch.is_on_disk)

    async def sync(self) -> bool:
        """Whether everything appended so far is on disk now because the write-ahead log has all that was unsynced."""
        tail, wal, newest = self._disk.view.tail, self._resources.wal, self._newest
        if newest is None or self._in_wal != (wal.failures, tail.segment, tail.size):
            return False
        wal.commit()
        cancelled = await newest.done()
        if cancelled is not None:
            raise cancelled
        return bool(newest.is_on_disk)

    async def flush(self) -> bool:
        """For the write-ahead log: whether what it has of this log is in synced segments, or not wanted any more."""
        if self._tiers.is_closed:
            async with self._turn:
                return self._tiers.is_released and self._disk.files.failure is None
        try:
            await self._resources.background.run(self._disk.files.sync_written)
        except PartitionOffline:
            return False
        return True

    async def leave(self) -> None:
        """Nothing that is in the write-ahead log is redone after this: the segments have it, synced.

        Always, since the log may have been closed and opened again after it was added.
        """
        await self._resources.writes.run(self._disk.files.sync)
        try:
            await self._resources.wal.forget(self._disk.log_id)
        except OSError as error:
            raise storage_error(self._disk.log_id, error) from error
