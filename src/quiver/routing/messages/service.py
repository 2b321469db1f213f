"""Messages: each call goes to the owner of its partition."""

import asyncio

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.model.position import Position
from quiver.partition.partition import Appended, Frame
from quiver.routing.futures import value_of
from quiver.routing.messages.requests import FindOffset, Produce
from quiver.routing.owners import Owners


class RoutedMessages:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers

    def produce(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0
    ) -> "asyncio.Future[Appended]":
        """Queued before it returns, here or on the link: frames of one connection stay in order."""
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return self._local.produce(topic_id, partition, frame, partition_count=partition_count)
        return value_of(self._peers.begin(worker, Produce(topic_id, partition, partition_count), (frame,)))

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return await self._local.find_offset(topic_id, partition, position, read_committed=read_committed)
        request = FindOffset(topic_id, partition, position, read_committed)
        return (await self._peers.call(worker, request)).value
