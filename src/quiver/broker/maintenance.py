"""Upkeep: retention and snapshots, on a timer."""

import asyncio

from quiver.system.pace import paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_SNAPSHOT_EVERY_SECONDS = 30.0


class Upkeep:
    """Runs until it is stopped. A failure is logged and tried again at the next turn; others have theirs."""

    def __init__(self, catalogue: TopicCatalogue, partitions: Partitions, *, every_seconds: float) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._every_seconds = every_seconds
        self.task = SupervisedTask("upkeep", self._run)

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        await self.task.stop()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        snapshots_due = loop.time() + _SNAPSHOT_EVERY_SECONDS
        while True:
            await asyncio.sleep(self._every_seconds)
            failures = Failures()
            await self._apply_retention(failures)
            with failures.of("a snapshot of the metadata"):
                await self._catalogue.snapshot_if_due()
            if loop.time() >= snapshots_due:
                snapshots_due = loop.time() + _SNAPSHOT_EVERY_SECONDS
                await self._snapshot_partitions(failures)
            failures.check()

    async def _apply_retention(self, failures: Failures) -> None:
        for topic in self._catalogue.topics():
            async for partition in paced(self._partitions.of(topic.id)):
                if partition.log.failure is None:
                    with failures.of(f"retention of {partition.name}"):
                        await partition.retain(topic.config)

    async def _snapshot_partitions(self, failures: Failures) -> None:
        async for partition in paced(self._partitions.all()):
            with failures.of(f"a snapshot of {partition.name}"):
                await partition.snapshot()
