"""Topics: worker 0 changes them, and every worker says what its own partitions contain."""

from collections.abc import Mapping
from typing import Any

from quiver.broker.broker import Broker
from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.model.errors import TopicNotFound
from quiver.model.topic import Topic
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter
from quiver.routing.topics.requests import AddPartitions, Alter, Create, Delete, Describe, Ensure
from quiver.topics.details import PartitionDetails, TopicDetails


class RoutedTopics:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, scatter: Scatter) -> None:
        self._local, self._owners, self._peers, self._scatter = local, owners, peers, scatter
        self._is_controller = owners.placement.is_controller

    async def create(self, name: str, settings: Mapping[str, Any]) -> Topic:
        if self._is_controller:
            return await self._local.create_topic(name, settings)
        return (await self._peers.call(CONTROLLER, Create(name, dict(settings)))).value

    async def ensure(self, name: str) -> None:
        if not self._local.settings.auto_create:
            return
        try:
            self._local.topic(name)
        except TopicNotFound:
            if self._is_controller:
                await self._local.ensure_topic(name)
            else:
                await self._peers.call(CONTROLLER, Ensure(name))

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic:
        if self._is_controller:
            return await self._local.alter_topic(name, settings)
        return (await self._peers.call(CONTROLLER, Alter(name, dict(settings)))).value

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        if self._is_controller:
            return await self._local.add_partitions(name, count)
        return (await self._peers.call(CONTROLLER, AddPartitions(name, count))).value

    async def delete(self, name: str) -> None:
        if self._is_controller:
            await self._local.delete_topic(name)
        else:
            await self._peers.call(CONTROLLER, Delete(name))

    async def describe(self, name: str) -> TopicDetails:
        """Partitions of a worker that does not respond are offline."""
        topic = self._local.topic(name)
        look = await self._scatter.look(Describe(name), lambda: self._own_details(name))
        known = {details.partition: details for answer in look.values() for details in answer}
        numbers = range(topic.config.partitions)
        return TopicDetails(topic, [known.get(n) or self._unknown(topic, n) for n in numbers])

    async def _own_details(self, name: str) -> list[PartitionDetails]:
        return (await self._local.describe(name)).partitions

    def _unknown(self, topic: Topic, number: int) -> PartitionDetails:
        worker = self._owners.placement.partition_worker(topic.name, number)
        compacted_to = 0 if topic.config.is_compacted else None
        return PartitionDetails(number, 0, 0, 0, 0, f"worker {worker} has not responded", compacted_to)
