"""A group's first use of a topic, asked of the other owners."""

import asyncio

from quiver.links.peers import Peers
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.routing.owners import Owners
from quiver.routing.queues.requests import BeginPartitions, BeginUse


class LinkedQueues:
    def __init__(self, owners: Owners, peers: Peers) -> None:
        self._owners, self._peers = owners, peers

    async def begin_use(self, topic: Topic, group: str, start: Position) -> None:
        await self._peers.call(self._owners.of(topic.name, 0), BeginUse(topic.id, group, start))

    async def begin_partitions(self, topic: Topic, group: str, start: Position) -> None:
        request = BeginPartitions(topic.id, group, start)
        others = [worker for worker in self._owners.of_topic(topic) if worker != self._owners.worker]
        await asyncio.gather(*(self._peers.call(worker, request) for worker in others))
