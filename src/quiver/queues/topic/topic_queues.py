"""The topics that groups have received from since the start: each is the queue of a group, where receivers wait."""

from collections.abc import Sequence

from quiver.groups.events import Group
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.queues.context import QueueContext
from quiver.queues.group_watchers import GroupWatchers
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.topic.first_use import FirstUse, NoOtherQueues, OtherQueues
from quiver.queues.topic.topic_queue import TopicQueue
from quiver.system.pace import paced
from quiver.topics.partitions import Partitions


class TopicQueues:
    def __init__(
        self, partitions: Partitions, queues: PartitionQueues, watchers: GroupWatchers, context: QueueContext
    ) -> None:
        self._partitions = partitions
        self._queues = queues
        self._watchers = watchers
        self._context = context
        self.others: OtherQueues = NoOtherQueues()
        self._known: dict[tuple[int, int], TopicQueue] = {}
        """By topic id and group id."""
        self._first = 0

    async def begun(self, topics: Sequence[Topic], group: Group, start: Position | None) -> list[TopicQueue]:
        """The queues of a receive; each topic comes first in turn. In topics that are new to it, the group begins."""
        found = []
        for topic in topics:
            queue = self.queue(topic, group)
            if not queue.has_begun:
                await queue.begin(start)
            found.append(queue)
        if len(found) > 1:
            self._first += 1
            first = self._first % len(found)
            found = found[first:] + found[:first]
        return found

    def queue(self, topic: Topic, group: Group) -> TopicQueue:
        """With the settings as they are now."""
        queue = self._known.get((topic.id, group.id))
        if queue is None:
            if not self._partitions.owned(topic.id):
                raise TopicNotFound(topic=topic.name)
            first_use = FirstUse(topic, group, self._partitions, self._queues, self.others)
            queue = TopicQueue(topic, group, first_use, self._partitions, self._queues, self._context)
            self._known[topic.id, group.id] = queue
        queue.configure(topic, group)
        return queue

    def of_group(self, group_id: int) -> list[TopicQueue]:
        return [queue for (_, id), queue in self._known.items() if id == group_id]

    def of_topic(self, topic_id: int) -> list[TopicQueue]:
        return [queue for (id, _), queue in self._known.items() if id == topic_id]

    def may_hold_more(self, queue: PartitionQueue, group_id: int) -> None:
        """A consumer has acked messages. The acks need not be on disk: other messages may be delivered to it."""
        found = self._known.get((queue.place.topic_id, group_id))
        if found is not None:
            found.may_hold_more(queue.place.partition)

    def settled(self, queue: PartitionQueue, group_id: int, *, frees: bool) -> None:
        """Consumers have settled messages; with `frees`, some of these are available to others."""
        found = self._known.get((queue.place.topic_id, group_id))
        if found is not None:
            found.settled(queue.place.partition, frees=frees)
        elif frees:
            self._watchers.wake(group_id)

    def changed(self, queue: PartitionQueue, group_id: int) -> None:
        """Not by a consumer: leases have expired, retries are due, or messages are gone."""
        found = self._known.get((queue.place.topic_id, group_id))
        if found is not None:
            found.settled(queue.place.partition, frees=True)

    def group_changed(self, group: Group) -> None:
        """It may be resumed in some topic."""
        for queue in self.of_group(group.id):
            queue.group_changed()

    def rewound(self, topic_id: int, partition: int, group_id: int) -> None:
        found = self._known.get((topic_id, group_id))
        if found is not None:
            found.rewound(partition)

    async def close_topic(self, topic_id: int) -> None:
        async for queue in paced(self.of_topic(topic_id)):
            self.close_queue(queue, TopicNotFound(topic=queue.topic.name))

    def close_group(self, group_id: int, error: QuiverError) -> None:
        for queue in self.of_group(group_id):
            self.close_queue(queue, error)

    async def close(self, error: QuiverError) -> None:
        """Whoever waits gets the error."""
        async for queue in paced(list(self._known.values())):
            queue.close(error)

    def close_queue(self, queue: TopicQueue, error: QuiverError) -> None:
        if self._known.pop((queue.topic.id, queue.group_id), None) is not None:
            queue.close(error)
