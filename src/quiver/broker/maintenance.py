"""Retention and snapshots, on a timer."""

from typing import NamedTuple

from quiver.broker.settled_retention import SettledRetention
from quiver.model.topic import TopicConfig
from quiver.partition.partition import Partition
from quiver.producers.service import ProducerIds
from quiver.system.clock import Clock
from quiver.system.pace import Pace, paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_SNAPSHOT_EVERY_SECONDS = 30.0
_LONGEST_PAUSE_MS = 60_000


class _Look(NamedTuple):
    """A partition as it was when its retention was applied."""

    time_ms: int
    config: TopicConfig
    start_offset: int
    end_offset: int

    def is_good_at(self, other: "_Look") -> bool:
        """Only time has passed since, and little for segments that live so long."""
        pause_ms = min(_LONGEST_PAUSE_MS, self.config.roll_after_ms // 10)
        return self.config is other.config and self[2:] == other[2:] and 0 <= other.time_ms - self.time_ms < pause_ms


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
        self._looks: dict[Partition, _Look] = {}
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
        before, self._looks, pace = self._looks, {}, Pace()
        for topic in self._catalogue.topics():
            for number, partition in self._partitions.owned(topic.id):
                if pace.is_used_up:
                    await pace.turn()
                log = partition.log
                if log.failure is not None:
                    continue
                look = _Look(self._clock.now_ms(), topic.config, log.start_offset, log.end_offset)
                last = before.get(partition)
                if last is None or not last.is_good_at(look):
                    with failures.of(f"retention of {partition.name}"):
                        await partition.retain(topic.config)
                        self._looks[partition] = look
                else:
                    self._looks[partition] = last
                if topic.config.settled_retention_ms is not None:
                    with failures.of(f"retention of {partition.name}"):
                        await self._settled.apply(topic, number, partition)

    async def _snapshot_partitions(self, failures: Failures) -> None:
        async for partition in paced(self._partitions.all()):
            with failures.of(f"a snapshot of {partition.name}"):
                await partition.saved_state.save()
