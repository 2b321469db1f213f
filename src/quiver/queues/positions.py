"""Where stream groups are: the one place that knows, and that decides what a commit means for what members hold.

Each fact is kept once. Where a group was told to be is in the group journal, with a version that counts how often;
what its members have acked since is in the delivery journal of the partition, which notes the version that it
follows. Nothing is copied from one to the other: the position is computed, over what is decided and on disk.

A commit takes effect when its record is applied, for both in one step. After a restart a delivery journal that has
not heard of the last commit follows it when it is opened.
"""

from collections.abc import Callable, Iterable

from quiver.groups.service import GroupService
from quiver.groups.table import Group
from quiver.model.topic_partition import TopicPartition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues


class Positions:
    """`on_news` is called with the id of a group that has something to read again."""

    def __init__(self, groups: GroupService, queues: PartitionQueues, *, on_news: Callable[[int], None]) -> None:
        self._groups = groups
        self._partition_queues = queues
        self._on_news = on_news
        groups.on_committed = self._committed

    def position(self, group: Group, partition: TopicPartition) -> int | None:
        """The next offset to read: everything below is committed or acked. None where the group has not begun."""
        committed = group.offsets.get(partition)
        if committed is None:
            return None
        queue = self._partition_queues.known(partition.topic_id).get(partition.partition)
        if queue is None or queue.version(group.id) != committed.version:
            return committed.offset
        settled = queue.settled_offset(group.id)
        return committed.offset if settled is None else max(settled, committed.offset)

    def shown(self, group: Group, partition: TopicPartition) -> int | None:
        """The position as users see it: None too while nothing was committed or acked."""
        position, committed = self.position(group, partition), group.offsets.get(partition)
        if position is None or committed is None:
            return None
        return None if committed.version == 0 and position <= committed.offset else position

    def opened(self, queue: PartitionQueue) -> None:
        """The delivery journal of a partition was read: it follows what groups committed that it has not heard of."""
        if self._groups.problem is not None:
            return
        place = TopicPartition(queue.topic_id, queue.number)
        for group_id in queue.group_ids:
            name = self._groups.name_of(group_id)
            if name is not None:
                self._follow(queue, self._groups.group(name), place)

    def _committed(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        group = self._groups.groups().get(name)
        if group is None:
            return
        for partition in partitions:
            queue = self._partition_queues.known(partition.topic_id).get(partition.partition)
            if queue is not None:
                self._follow(queue, group, partition)

    def _follow(self, queue: PartitionQueue, group: Group, partition: TopicPartition) -> None:
        committed = group.offsets.get(partition)
        if committed is not None and queue.follow(group.id, committed.offset, committed.version):
            self._on_news(group.id)
