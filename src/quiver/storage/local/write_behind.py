"""What happens after appends have returned: what is written gets synced, and offsets are reserved ahead."""

import asyncio
import logging

from quiver.log.files.write_error import is_lack_of_room, storage_error
from quiver.log.segment_log import SegmentLog
from quiver.model.errors import PartitionOffline
from quiver.model.limits import MIB
from quiver.storage.local.free_space import FreeSpace
from quiver.system.pace import bounded_gather
from quiver.system.threads import Threads
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask

FLUSH_SECONDS = 1.0
FLUSH_AT_BYTES = 16 * MIB
MAX_UNSYNCED_BYTES = 64 * MIB
_logger = logging.getLogger(__name__)


class Flusher:
    """Syncs, every second, the logs of a data directory that have written; also checks the free space of the disk."""

    def __init__(self, threads: Threads, space: FreeSpace) -> None:
        self._threads = threads
        self._space = space
        self._dirty: dict[WriteBehind, None] = {}
        """In the order in which they have written."""
        self._task = PeriodicTask("flushing", self._round, every_seconds=FLUSH_SECONDS)

    @property
    def problem(self) -> str | None:
        return self._task.problem

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()

    def needs_flush(self, log: "WriteBehind") -> None:
        """The log has written what is not synced; it will be flushed within a second."""
        self._dirty[log] = None

    def forget(self, log: "WriteBehind") -> None:
        """The log is removed."""
        self._dirty.pop(log, None)

    async def flush(self) -> None:
        """Syncs every log that has written since the last time, many at once."""
        dirty, self._dirty = self._dirty, {}
        await bounded_gather(_flush, dirty)

    async def _round(self, failures: Failures) -> None:
        try:
            await self._threads.run(self._space.look)
        except OSError as error:
            _logger.warning("the free space of the data directory is not known: %s", error)
        await self.flush()


async def _flush(log: "WriteBehind") -> None:
    try:
        await log.flush()
    except Exception:
        _logger.exception("a log could not be flushed")


class WriteBehind:
    """For one log. Used on the loop, except `reserve`, which blocks."""

    def __init__(self, disk: SegmentLog, threads: Threads, flusher: Flusher) -> None:
        self._disk = disk
        self._threads = threads
        self._flusher = flusher
        self._unsynced_bytes = 0
        self._flushing: asyncio.Task[None] | None = None
        self._reserving: asyncio.Task[None] | None = None

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsynced that the writer had better wait."""
        return self._unsynced_bytes > MAX_UNSYNCED_BYTES

    async def catch_up(self) -> None:
        """Waits for a sync that is under way."""
        if self._flushing is not None:
            await asyncio.wait([self._flushing])

    def wrote(self, size_bytes: int) -> None:
        """Notes bytes that were written and not synced."""
        self._unsynced_bytes += size_bytes
        self._flusher.needs_flush(self)
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
        """Returns when offsets below `end_offset` may be given out. Blocks when that takes a sync."""
        if end_offset <= self._disk.reservation.limit:
            return
        try:
            self._disk.reservation.renew(end_offset, self._disk.state)
        except OSError as error:
            if not is_lack_of_room(error):
                self._disk.files.fail(f"offsets could not be reserved: {error}")
            raise storage_error(self._disk.log_id, error) from error

    def reserve_ahead(self, end_offset: int) -> None:
        """Begins to reserve more when half is used up, so that a writer seldom waits for it."""
        if end_offset > self._disk.reservation.renew_at and self._reserving is None:
            self._reserving = asyncio.create_task(self._reserve_ahead(end_offset))

    async def _reserve_ahead(self, end_offset: int) -> None:
        try:
            await self._threads.run(self._disk.reservation.renew, end_offset, self._disk.state)
        except OSError:
            pass  # the append that reaches the bound tries again and reports it
        finally:
            self._reserving = None

    async def finish(self) -> None:
        """Waits for what is under way."""
        tasks = [task for task in (self._flushing, self._reserving) if task is not None]
        if tasks:
            await asyncio.wait(tasks)
