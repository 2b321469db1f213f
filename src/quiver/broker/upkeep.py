"""Upkeep: retention and snapshots, on a timer."""

import asyncio
import logging
from collections.abc import Awaitable

from quiver.broker.partitions import Partitions
from quiver.metadata.service import MetadataService
from quiver.model.errors import QuiverError
from quiver.system.pace import paced

logger = logging.getLogger(__name__)

_SNAPSHOT_EVERY_SECONDS = 30.0


class Upkeep:
    """Runs until it is stopped. A failure is logged and tried again at the next turn."""

    def __init__(self, metadata: MetadataService, partitions: Partitions, *, every_seconds: float) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._every_seconds = every_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        snapshots_due = loop.time() + _SNAPSHOT_EVERY_SECONDS
        while True:
            await asyncio.sleep(self._every_seconds)
            await self._attempt("retention", self._apply_retention())
            await self._attempt("metadata snapshot", self._metadata.snapshot_if_due())
            if loop.time() >= snapshots_due:
                snapshots_due = loop.time() + _SNAPSHOT_EVERY_SECONDS
                await self._attempt("snapshots", self._snapshot_partitions())

    async def _attempt(self, what: str, work: Awaitable[None]) -> None:
        try:
            await work
        except (QuiverError, OSError) as error:
            logger.warning("%s failed, will try again: %s", what, error)

    async def _apply_retention(self) -> None:
        for topic in self._metadata.topics():
            async for partition in paced(self._partitions.of(topic.id)):
                if partition.log.failure is None:
                    await partition.retain(topic.config)

    async def _snapshot_partitions(self) -> None:
        async for partition in paced(self._partitions.all()):
            await partition.snapshot()
