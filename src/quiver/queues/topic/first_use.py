"""Where a queue group begins in a topic: decided once, with its first receive."""

import asyncio
from typing import Protocol

from quiver.groups.events import Group
from quiver.messages.position_offset import position_offset
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import Topic
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.system.pace import bounded_gather
from quiver.topics.partitions import Partitions


class OtherQueues(Protocol):
    """The other processes that own partitions of a topic."""

    async def begin_use(self, topic: Topic, group: str, start: Position) -> None:
        """Returns when the owner of partition 0 has decided that the group uses the topic (`Queues.begin_use`)."""

    async def begin_partitions(self, topic: Topic, group: str, start: Position) -> None:
        """Returns when all others have begun where the group skips something (`Queues.begin_partitions`)."""


class NoOtherQueues:
    """This process owns everything."""

    async def begin_use(self, topic: Topic, group: str, start: Position) -> None:
        raise AssertionError("this process owns every partition")

    async def begin_partitions(self, topic: Topic, group: str, start: Position) -> None:
        pass


class FirstUse:
    """A partition begins with the first message that the group takes from it, so an idle one costs nothing, or at
    once where the group skips something. That the group uses the topic is on the journal of partition 0, which begins
    last: its owner decides, and the others ask it."""

    def __init__(
        self, topic: Topic, group: Group, partitions: Partitions, queues: PartitionQueues, others: OtherQueues
    ) -> None:
        self._topic, self._group = topic, group
        self._partitions = partitions
        self._queues = queues
        self._others = others
        self._beginning = asyncio.Lock()
        self._decides = any(number == 0 for number, _ in partitions.owned(topic.id))
        self._is_decided = False
        """The owner of partition 0 has said so."""

    @property
    def has_begun(self) -> bool:
        """Partition 0 knows; while that cannot be read, the others do."""
        if not self._decides:
            return self._is_decided
        known = self._queues.of(self._topic.id)
        if (self._topic.id, 0) not in self._queues.problems:
            return 0 in known and known[0].state(self._group.id) is not None
        return any(queue.state(self._group.id) is not None for queue in known.values())

    async def begin(self, start: Position) -> None:
        async with self._beginning:
            if self.has_begun:
                return
            if not self._decides:
                await self._others.begin_use(self._topic, self._group.name, start)
                self._is_decided = True
                return
            if start != EARLIEST:
                await self.begin_partitions(start)
                await self._others.begin_partitions(self._topic, self._group.name, start)
            await self.begun(0, await position_offset(self._partitions.get(self._topic.id, 0), start))

    async def begin_partitions(self, start: Position) -> None:
        """Begins in the partitions of this process, but for partition 0, where the group skips something."""
        numbers = [number for number, _ in self._partitions.owned(self._topic.id) if number != 0]
        await bounded_gather(lambda number: self._begin_after(number, start), numbers)

    async def begun(self, number: int, start: int | None = None) -> PartitionQueue:
        """The partition's queue, in which the group has begun: at the earliest offset, if it had not yet."""
        queue = await self._queues.open(self._topic.id, number)
        if queue.state(self._group.id) is None:
            offset = queue.partition.log.start_offset if start is None else start
            await queue.begin(self._group.id, ordering=self._group.ordering, start=offset)
        return queue

    async def _begin_after(self, number: int, start: Position) -> None:
        partition = self._partitions.get(self._topic.id, number)
        offset = await position_offset(partition, start)
        if offset > partition.log.start_offset:
            await self.begun(number, offset)
