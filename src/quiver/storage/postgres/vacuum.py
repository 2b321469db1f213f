"""Vacuums tables of frames from which much was removed.

PostgreSQL by itself looks once a minute, and gigabytes may go through a table in that time.
"""

import asyncio
import logging

from quiver.model.limits import MIB
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.errors import Failure, check_cancelled, described

logger = logging.getLogger(__name__)

_SHARE = 8
"""A vacuum looks through whole indexes: an eighth of a large table is worth it."""
_AT_ONCE = 3
_LONGEST_SECONDS = 3_600.0


class TableVacuum:
    """A few tables at a time, each on a connection of its own: a vacuum waits for the disk most of the time. Where it
    fails or is refused, autovacuum is left."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._removed: dict[str, int] = {}
        """Bytes, since the last vacuum of each table."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)
        self.least_bytes = 32 * MIB

    def note(self, table: str, removed_bytes: int, table_bytes: int) -> None:
        """So much was removed from a table that has so much now, with what was removed."""
        removed = self._removed[table] = self._removed.get(table, 0) + removed_bytes
        if removed >= max(self.least_bytes, table_bytes // _SHARE) and table not in self._tasks:
            self._tasks[table] = asyncio.get_running_loop().create_task(self._run(table))

    async def _run(self, table: str) -> None:
        try:
            async with self._places:
                while self._removed[table] >= self.least_bytes and self._database.problem is None:
                    self._removed[table] = 0
                    await self._vacuum(table)
        finally:
            del self._tasks[table]

    async def _vacuum(self, table: str) -> None:
        connection = None
        try:
            connection = await self._database.pool.connect()
            await connection.execute(f"vacuum (truncate false, skip_locked) {table}", timeout=_LONGEST_SECONDS)
            await connection.close(timeout=1)
        except Failure as error:
            logger.info("table %s was not vacuumed: %s", table, described(error))
        except asyncio.CancelledError:
            check_cancelled()
            logger.info("table %s was not vacuumed: the connection was lost", table)
        finally:
            if connection is not None:
                connection.terminate()

    async def finish(self) -> None:
        """Returns when nothing is due."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
