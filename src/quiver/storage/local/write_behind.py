"""What an `interval` log does after its appends have returned: syncing what was written, reserving offsets ahead."""

import asyncio
from typing import Protocol

from quiver.log.files.write_error import is_lack_of_room, storage_error
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import PartitionOffline
from quiver.model.limits import MIB
from quiver.system.threads import Threads

FLUSH_AT_BYTES = 16 * MIB
MAX_UNSYNCED_BYTES = 64 * MIB


class FlushSchedule(Protocol):
    def needs_flush(self, log: "WriteBehind") -> None:
        """The log has written what is not synced; it is to be flushed within a second."""
        ...


class WriteBehind:
    """Used on the loop, but for `reserve`, which blocks."""

    def __init__(self, disk: SegmentLog, threads: Threads, schedule: FlushSchedule) -> None:
        self._disk = disk
        self._threads = threads
        self._schedule = schedule
        self._unsynced_bytes = 0
        self._flushing: asyncio.Task[None] | None = None
        self._reserving: asyncio.Task[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsynced that the writer had better wait."""
        return self._unsynced_bytes > MAX_UNSYNCED_BYTES

    async def catch_up(self) -> None:
        """Waits for a sync that is on its way."""
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    def wrote(self, size_bytes: int) -> None:
        """Notes bytes that were written and not synced."""
        self._unsynced_bytes += size_bytes
        self._schedule.needs_flush(self)
        if self._unsynced_bytes >= FLUSH_AT_BYTES and self._flushing is None:
            self._flushing = asyncio.create_task(self.flush())

    async def flush(self) -> None:
        """Syncs what is written. A failure takes the log offline and is not raised here."""
        self._unsynced_bytes = 0
        try:
            await self._threads.run(self._disk.files.sync)
        except PartitionOffline:
            pass  # logged when it failed, and shown as the log's failure
        finally:
            if self._flushing is asyncio.current_task():
                self._flushing = None

    def reserve(self, end_offset: int) -> None:
        """Returns when offsets below may be given out. Blocks when that takes a sync."""
        if self._disk.reservation.covers(end_offset):
            return
        try:
            self._disk.reservation.renew(end_offset, self._disk.state)
        except OSError as error:
            if not is_lack_of_room(error):
                self._disk.files.fail(f"offsets could not be reserved: {error}")
            raise storage_error(self._disk.log_id, error) from error

    def reserve_ahead(self, end_offset: int) -> None:
        """Begins to reserve more when half is used up, so that a writer seldom waits for it."""
        if self._disk.reservation.is_half_used(end_offset) and self._reserving is None:
            self._reserving = asyncio.create_task(self._reserve_ahead(end_offset))

    async def _reserve_ahead(self, end_offset: int) -> None:
        try:
            await self._threads.run(self._disk.reservation.renew, end_offset, self._disk.state)
        except OSError:
            pass  # the append that reaches the bound tries again and reports it
        finally:
            self._reserving = None

    async def finish(self) -> None:
        """Waits for what is on its way."""
        tasks = [task for task in (self._flushing, self._reserving) if task is not None]
        if tasks:
            await asyncio.wait(tasks)
