"""Syncs what was written and not synced, every second, and looks at the free space of the disk."""

import logging

from quiver.storage.local.free_space import FreeSpace
from quiver.storage.local.write_behind import WriteBehind
from quiver.structures.ordered_set import OrderedSet
from quiver.system.pace import bounded_gather
from quiver.system.threads import Threads
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask

FLUSH_SECONDS = 1.0
_logger = logging.getLogger(__name__)


class Flusher:
    def __init__(self, threads: Threads, space: FreeSpace) -> None:
        self._threads = threads
        self._space = space
        self._dirty: OrderedSet[WriteBehind] = OrderedSet()
        self._task = PeriodicTask("flushing", self._round, every_seconds=FLUSH_SECONDS)

    @property
    def problem(self) -> str | None:
        return self._task.problem

    def start(self) -> None:
        self._task.start()

    async def stop(self) -> None:
        await self._task.stop()

    def needs_flush(self, log: WriteBehind) -> None:
        """The log has written what is not synced; it will be flushed within a second."""
        self._dirty.add(log)

    async def flush(self) -> None:
        """Syncs every log that has written since the last time, many at once."""
        dirty, self._dirty = self._dirty, OrderedSet()
        await bounded_gather(_flush, dirty)

    async def _round(self, failures: Failures) -> None:
        try:
            await self._threads.run(self._space.look)
        except OSError as error:
            _logger.warning("the free space of the data directory is not known: %s", error)
        await self.flush()


async def _flush(log: WriteBehind) -> None:
    try:
        await log.flush()
    except Exception:
        _logger.exception("a log could not be flushed")
