"""Where stream groups are: the one place that knows, and that decides what a commit means for what members hold.

Each fact is kept once. Where a group was told to be is in the group journal, with a version that counts how often;
what its members have acked since is in the queue journal of the partition, which notes the version that it follows.
Nothing is copied from one to the other: the position is computed, over what is decided and on disk.

A commit takes effect when its record is applied, for both in one step. After a restart a queue journal that does not
have the last commit yet follows it when it is opened.
"""

from collections.abc import Iterable

from quiver.groups.service import GroupService
from quiver.groups.table import Group
from quiver.model.topic_partition import TopicPartition
from quiver.partition.lazy_registry import LazyRegistry
from quiver.queues.group_watchers import GroupWatchers
from quiver.queues.partition.partition_queue import PartitionQueue


class CommitFollower:
    """Queues of partitions follow what groups commit; whoever watches a group gets to know when it goes back."""

    def __init__(self, groups: GroupService, watchers: GroupWatchers) -> None:
        self._groups = groups
        self._watchers = watchers

    def follow_all(self, queue: PartitionQueue) -> None:
        """For a queue that was opened just now: what was committed and is not on its journal."""
        if self._groups.problem is not None:
            return
        for group_id in queue.group_ids:
            name = self._groups.name_of(group_id)
            if name is not None:
                self.follow(queue, self._groups.group(name))

    def follow(self, queue: PartitionQueue, group: Group) -> None:
        committed = group.offsets.get(queue.place)
        if committed is not None and queue.follow(group.id, committed.offset, committed.version):
            self._watchers.wake(group.id)


class Positions:
    def __init__(self, groups: GroupService, queues: LazyRegistry[PartitionQueue], follower: CommitFollower) -> None:
        self._groups = groups
        self._queues = queues
        self._follower = follower
        groups.on_committed = self._committed

    def position(self, group: Group, partition: TopicPartition) -> int | None:
        """The next offset to read: everything below is committed or acked. None where the group has not begun."""
        committed = group.offsets.get(partition)
        if committed is None:
            return None
        queue = self._queues.get(*partition)
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

    def _committed(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        group = self._groups.groups().get(name)
        if group is None:
            return
        for partition in partitions:
            queue = self._queues.get(*partition)
            if queue is not None:
                self._follower.follow(queue, group)
