"""The queues of partitions: opened when they are first needed, and at start-up where there are any."""

import logging
from collections.abc import Callable
from typing import TypeAlias

from quiver.model.errors import CorruptData, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.partition.lazy_registry import LazyRegistry
from quiver.queues.context import QueueContext
from quiver.queues.journal.moves import MoveCarrier
from quiver.queues.lease_times import LeaseTimes
from quiver.queues.partition.lease_issuer import LeaseIds
from quiver.queues.partition.partition_queue import PartitionQueue, log_id
from quiver.storage.port import Storage
from quiver.system.pace import bounded_gather
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

PartitionQueues: TypeAlias = LazyRegistry[PartitionQueue]


class PartitionQueueOpener:
    def __init__(
        self,
        storage: Storage,
        partitions: Partitions,
        mover: MoveCarrier,
        context: QueueContext,
        times: LeaseTimes,
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._mover = mover
        self._context = context
        self._times = times
        self.subscribers: list[Callable[[PartitionQueue], None]] = []
        self._lease_ids: LeaseIds | None = None
        """Made when the start epoch is known."""

    async def open(self, place: TopicPartition) -> PartitionQueue:
        partition = self._partitions.get(*place)
        if self._lease_ids is None:
            self._lease_ids = LeaseIds(self._partitions.start_epoch)
        queue = await PartitionQueue.open(
            self._storage, place, partition, self._context, self._mover, self._lease_ids
        )
        if (place.partition, partition) not in self._partitions.owned(place.topic_id):
            await queue.close()
            raise TopicNotFound(f"topic id {place.topic_id} was deleted", topic=place.topic_id)
        return queue

    def opened(self, place: TopicPartition, queue: PartitionQueue) -> None:
        for on_opened in self.subscribers:
            on_opened(queue)
        self._times.note(queue, queue.next_time_ms())


async def close_all(queues: PartitionQueues) -> None:
    await bounded_gather(_close, await queues.close())


def check_readable(queues: PartitionQueues, place: TopicPartition) -> None:
    """CorruptData while the journal of a partition's queue cannot be read."""
    problem = queues.problems.get(place)
    if problem is not None:
        raise CorruptData(problem, where=log_id(place))


async def _close(queue: PartitionQueue) -> None:
    try:
        await queue.close()
    except Exception as problem:
        logger.error("the queue state of %s did not close cleanly: %s", queue.partition.name, problem)
