"""Topics: worker 0 changes them, and every worker says what its own partitions contain."""

from collections.abc import Mapping, Sequence
from typing import Any

from quiver.broker.broker import Broker
from quiver.broker.stats import BrokerStats
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.topic import Topic
from quiver.routing.controller_route import ControllerRoute
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter
from quiver.routing.topics.handlers import own_stats
from quiver.routing.topics.requests import (
    AddPartitions,
    Alter,
    Compact,
    Create,
    Delete,
    Describe,
    Ensure,
    Purge,
    Stats,
)
from quiver.storage.port import Compacted
from quiver.system.pace import paced
from quiver.topics.compaction import TopicCompaction
from quiver.topics.details import PartitionDetails, TopicDetails


class RoutedTopics:
    def __init__(self, local: Broker, owners: Owners, controller: ControllerRoute, scatter: Scatter) -> None:
        self._local, self._owners, self._controller, self._scatter = local, owners, controller, scatter

    async def create(self, name: str, settings: Mapping[str, Any]) -> Topic:
        return await self._controller.call(Create(name, dict(settings)))

    async def ensure(self, name: str) -> None:
        if not self._local.settings.auto_create:
            return
        try:
            self._local.topic(name)
        except TopicNotFound:
            await self._controller.call(Ensure(name))

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic:
        return await self._controller.call(Alter(name, dict(settings)))

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        return await self._controller.call(AddPartitions(name, count))

    async def delete(self, name: str) -> None:
        await self._controller.call(Delete(name))

    async def purge(self, name: str) -> None:
        await self._scatter.all(Purge(name), lambda: self._local.purge_topic(name))

    async def compact(self, name: str, partitions: Sequence[int] | None, *, dry_run: bool) -> TopicCompaction:
        """Each owner compacts its own; the first error is raised when all have ended."""
        topic = self._local.topic(name)
        numbers = range(topic.config.partitions) if partitions is None else sorted(set(partitions))
        by_worker: dict[int, list[int]] = {}
        for number in numbers:
            by_worker.setdefault(self._owners.placement.partition_worker(name, number), []).append(number)
        requests = {worker: Compact(name, owned, dry_run) for worker, owned in by_worker.items()}
        own = by_worker.get(self._owners.worker, [])
        done: dict[int, Compacted] = {}
        for outcome in (await self._scatter.split(requests, lambda: self._compact_own(name, own, dry_run))).values():
            if isinstance(outcome, QuiverError):
                raise outcome
            done |= outcome
        return TopicCompaction(dict(sorted(done.items())))

    async def _compact_own(self, name: str, partitions: list[int], dry_run: bool) -> dict[int, Compacted]:
        return (await self._local.compact_topic(name, partitions, dry_run=dry_run)).partitions

    async def stats(self) -> BrokerStats:
        """Since the oldest worker started."""
        look = await self._scatter.look(Stats(), lambda: own_stats(self._local))
        uptime = max(answer.uptime_seconds for answer in look.values())
        topics = []
        async for topic in paced(self._local.topics()):
            owned = [answer.topics.get(topic.name, []) for answer in look.values()]
            topics.append(self._put_together(topic, owned))
        return BrokerStats(uptime, topics)

    async def describe(self, name: str) -> TopicDetails:
        """Partitions of a worker that does not respond are offline."""
        topic = self._local.topic(name)
        look = await self._scatter.look(Describe(name), lambda: self._own_details(name))
        return self._put_together(topic, look.values())

    def _put_together(self, topic: Topic, owned: list[list[PartitionDetails]]) -> TopicDetails:
        known = {details.partition: details for answer in owned for details in answer}
        numbers = range(topic.config.partitions)
        return TopicDetails(topic, [known.get(n) or self._unknown(topic, n) for n in numbers])

    async def _own_details(self, name: str) -> list[PartitionDetails]:
        return (await self._local.describe(name)).partitions

    def _unknown(self, topic: Topic, number: int) -> PartitionDetails:
        worker = self._owners.placement.partition_worker(topic.name, number)
        compacted_to = 0 if topic.config.is_compacted else None
        return PartitionDetails(number, 0, 0, 0, 0, f"worker {worker} has not responded", compacted_to)
