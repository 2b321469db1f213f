"""Retention and snapshots, on a timer."""

from quiver.producers.service import ProducerIds
from quiver.streams.settled_retention import SettledRetention
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_SNAPSHOT_EVERY_SECONDS = 30.0


class Maintenance:
    """Runs until it is stopped. A failure is logged and tried again in the next round."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        producer_ids: ProducerIds,
        settled: SettledRetention,
        *,
        clock: Clock,
        every_seconds: float,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._settled = settled
        self._clock = clock
        self._snapshots_due = 0.0
        self.task = PeriodicTask("maintenance", self._run, every_seconds=every_seconds)

    def start(self) -> None:
        self._snapshots_due = self._clock.monotonic() + _SNAPSHOT_EVERY_SECONDS
        self.task.start()

    async def stop(self) -> None:
        await self.task.stop()

    async def _run(self, failures: Failures) -> None:
        await self._apply_retention(failures)
        with failures.of("a snapshot of producers"):
            await self._producer_ids.snapshot_if_due()
        if self._clock.monotonic() >= self._snapshots_due:
            self._snapshots_due = self._clock.monotonic() + _SNAPSHOT_EVERY_SECONDS
            await self._snapshot_partitions(failures)

    async def _apply_retention(self, failures: Failures) -> None:
        for topic in self._catalogue.topics():
            async for number, partition in paced(self._partitions.owned(topic.id)):
                if partition.log.failure is None:
                    with failures.of(f"retention of {partition.name}"):
                        await partition.retain(topic.config)
                        await self._settled.apply(topic, number, partition)

    async def _snapshot_partitions(self, failures: Failures) -> None:
        async for partition in paced(self._partitions.all()):
            with failures.of(f"a snapshot of {partition.name}"):
                await partition.saved_state.save()
