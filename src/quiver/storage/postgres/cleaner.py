"""Removes frames that are below the start of their log, a bounded number at a time and in the background."""

import asyncio
import logging
from collections import deque

from quiver.model.errors import QuiverError
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.vacuum import TableVacuum

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 5.0


class Cleaner:
    """What a log no longer has is deleted after its start was moved: a process that ends in between leaves frames
    that nobody reads, and whoever opens the log next deletes them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.vacuum = TableVacuum(database)
        self._ranges: deque[tuple[int, int, int]] = deque()
        self._task: asyncio.Task[None] | None = None

    def remove(self, log: int, ranges: list[tuple[int, int]]) -> None:
        """Ranges of offsets, each a segment's at most: what one statement deletes."""
        self._ranges += [(log, start, end) for start, end in ranges]
        if self._ranges and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._ranges:
            log, start, end = self._ranges[0]
            try:
                removed = await self._database.fetch("remove_frames", log, start, end)
            except QuiverError as error:
                logger.info("frames below the start of a log are not deleted yet: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._ranges.popleft()
                for table, removed_bytes, table_bytes in removed:
                    self.vacuum.note(table, removed_bytes, table_bytes)
        self._task = None

    async def finish(self) -> None:
        """Returns when nothing is left to delete."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.vacuum.close()
