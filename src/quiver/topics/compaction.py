"""Compaction: on a timer where it is due, and by hand."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from quiver.model.errors import InvalidRequest, PartitionNotFound, ShuttingDown
from quiver.model.topic import Topic
from quiver.partition.compaction import compact, is_due
from quiver.partition.partition import Partition
from quiver.storage.port import Compacted
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 60.0


class TopicCompaction(NamedTuple):
    """What compaction did, or with `dry_run` would do, by partition."""

    partitions: dict[int, Compacted]

    @property
    def records_before(self) -> int:
        return sum(done.records_before for done in self.partitions.values())

    @property
    def records_after(self) -> int:
        return sum(done.records_after for done in self.partitions.values())

    @property
    def dirty_ratio(self) -> float:
        """The share of bytes that this pass was the first to see."""
        total = sum(done.total_bytes for done in self.partitions.values())
        return sum(done.dirty_bytes for done in self.partitions.values()) / total if total else 0.0


class Compactions:
    """On the timer one pass runs at a time. A failed pass is logged and tried again later."""

    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, *, clock: Clock, every_seconds: float
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._clock = clock
        self.task = PeriodicTask("compaction", self._run, every_seconds=every_seconds)
        self._by_hand: set[asyncio.Task[TopicCompaction]] = set()
        self._not_before: WeakKeyDictionary[Partition, float] = WeakKeyDictionary()

    def start(self) -> None:
        self.task.start()

    async def stop(self) -> None:
        """Stops running passes; segments that they have replaced already stay replaced."""
        tasks = list(self._by_hand)
        for task in tasks:
            task.cancel()
        await asyncio.gather(self.task.stop(), *tasks, return_exceptions=True)

    async def compact(self, name: str, partitions: Sequence[int] | None, *, dry_run: bool) -> TopicCompaction:
        """Compacts now, including active segments. The pass runs to its end even if the caller stops waiting."""
        topic = self._catalogue.topic(name)
        if not topic.config.is_compacted and not dry_run:
            raise InvalidRequest(problem=f"topic {name!r} is not compacted; set cleanup to compact or compact,delete")
        numbers = range(topic.config.partitions) if partitions is None else sorted(set(partitions))
        for number in numbers:
            if not 0 <= number < topic.config.partitions:
                raise PartitionNotFound(topic=name, count=topic.config.partitions, partition=number)
        task = asyncio.get_running_loop().create_task(self._compact(topic, numbers, dry_run))
        self._by_hand.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise ShuttingDown() from None
            raise

    def _forget(self, task: "asyncio.Task[TopicCompaction]") -> None:
        self._by_hand.discard(task)
        if not task.cancelled():
            task.exception()  # the caller may be gone

    async def _compact(self, topic: Topic, numbers: Sequence[int], dry_run: bool) -> TopicCompaction:
        done: dict[int, Compacted] = {}
        for number in numbers:
            partition = self._partitions.get(topic.id, number)
            done[number] = await compact(partition, topic.config, self._clock.now_ms(), roll=True, dry_run=dry_run)
            if not dry_run:
                _log_pass(partition, done[number])
        return TopicCompaction(done)

    async def _run(self, failures: Failures) -> None:
        for topic in self._catalogue.topics():
            if topic.config.is_compacted:
                await self._compact_due(topic, failures)

    async def _compact_due(self, topic: Topic, failures: Failures) -> None:
        async for partition in paced(self._partitions.of(topic.id)):
            if self._clock.monotonic() < self._not_before.get(partition, 0.0):
                continue
            self._not_before.pop(partition, None)
            with failures.of(f"compaction of {partition.name}"):
                await self._attempt(partition, topic)

    async def _attempt(self, partition: Partition, topic: Topic) -> None:
        if not is_due(partition, topic.config, self._clock.now_ms()):
            return
        try:
            done = await compact(partition, topic.config, self._clock.now_ms())
        except Exception:
            self._not_before[partition] = self._clock.monotonic() + _RETRY_SECONDS
            raise
        _log_pass(partition, done)


def _log_pass(partition: Partition, done: Compacted) -> None:
    partition.traffic.compacted_messages += done.records_before - done.records_after
    logger.info("compacted %s: %d of %d messages stay", partition.name, done.records_after, done.records_before)
