"""Where a queue group begins in a topic: decided once, with its first receive."""

import asyncio

from quiver.groups.events import Group
from quiver.messages.position_offset import position_offset
from quiver.model.position import EARLIEST, Position
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.system.pace import bounded_gather
from quiver.topics.partitions import Partitions


class FirstUse:
    """A partition begins with the first message that the group takes from it, so an idle one costs nothing, or at
    once where the group skips something. That the group uses the topic is on the journal of partition 0, which begins
    last."""

    def __init__(self, topic_id: int, group: Group, partitions: Partitions, queues: PartitionQueues) -> None:
        self._topic_id = topic_id
        self._group_id, self._ordering = group.id, group.ordering
        self._partitions = partitions
        self._queues = queues
        self._beginning = asyncio.Lock()

    @property
    def has_begun(self) -> bool:
        """Partition 0 knows; while that cannot be read, the others do."""
        known = self._queues.of(self._topic_id)
        if (self._topic_id, 0) not in self._queues.problems:
            return 0 in known and known[0].state(self._group_id) is not None
        return any(queue.state(self._group_id) is not None for queue in known.values())

    async def begin(self, start: Position) -> None:
        async with self._beginning:
            if self.has_begun:
                return
            if start != EARLIEST:
                others = [number for number, _ in self._partitions.owned(self._topic_id) if number != 0]
                await bounded_gather(lambda number: self._begin_after(number, start), others)
            await self.begun(0, await position_offset(self._partitions.get(self._topic_id, 0), start))

    async def begun(self, number: int, start: int | None = None) -> PartitionQueue:
        """The partition's queue, in which the group has begun: at the earliest offset, if it had not yet."""
        queue = await self._queues.open(self._topic_id, number)
        if queue.state(self._group_id) is None:
            offset = queue.partition.log.start_offset if start is None else start
            await queue.begin(self._group_id, ordering=self._ordering, start=offset)
        return queue

    async def _begin_after(self, number: int, start: Position) -> None:
        partition = self._partitions.get(self._topic_id, number)
        offset = await position_offset(partition, start)
        if offset > partition.log.start_offset:
            await self.begun(number, offset)
