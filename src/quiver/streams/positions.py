"""Positions of stream groups: the one place that knows them, and applies commits to what members have leased.

Each fact is kept once. Commits are in the journal of stream groups, with a version that counts them; what members
have acked since is in the queue journal of the partition, which records the version that it follows. Nothing is
copied from one to the other: the position is computed from what is decided and on disk.

A commit takes effect in both when its record is applied, in one step. After a restart, a partition queue that has
not seen the last commit follows it when it is opened.
"""

from quiver.model.names import TopicPartition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.streams.events import Event, OffsetsCommitted
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.state import StreamGroup


class Positions:
    def __init__(self, journal: StreamJournal, queues: Queues) -> None:
        self._journal = journal
        self._queues = queues
        journal.subscribe(self._applied)
        queues.subscribe(self._opened)

    def position(self, group_id: int, partition: TopicPartition) -> int | None:
        """The next offset to read: everything below is committed or acked. None if the group has not begun."""
        group = self._journal.find(group_id)
        committed = None if group is None else group.offsets.get(partition)
        if committed is None:
            return None
        queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
        if queue is None or queue.version(group_id) != committed.version:
            return committed.offset
        settled = queue.settled_offset(group_id)
        return committed.offset if settled is None else max(settled, committed.offset)

    def next_offset(self, group_id: int, partition: TopicPartition, earliest: int) -> int:
        """The position, or `earliest` if the group has not begun or the log begins after its position."""
        position = self.position(group_id, partition)
        return earliest if position is None else max(position, earliest)

    def shown(self, group_id: int, partition: TopicPartition) -> int | None:
        """The position as users see it: also None while nothing was committed or acked."""
        position, group = self.position(group_id, partition), self._journal.find(group_id)
        if position is None or group is None:
            return None
        committed = group.offsets[partition]
        return None if committed.version == 0 and position <= committed.offset else position

    def _opened(self, queue: PartitionQueue) -> None:
        """Called when the journal of a partition queue was read: it follows the commits that it has not seen."""
        if self._journal.problem is not None:
            return
        for group_id in queue.group_ids:
            group = self._journal.find(group_id)
            if group is not None:
                self._follow(queue, group_id, group, queue.place)

    def _applied(self, event: Event) -> None:
        if not isinstance(event, OffsetsCommitted):
            return
        group = self._journal.find(event.group_id)
        assert group is not None, "its record was applied"
        for partition, _ in event.offsets:
            queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
            if queue is not None:
                self._follow(queue, event.group_id, group, partition)

    def _follow(self, queue: PartitionQueue, group_id: int, group: StreamGroup, partition: TopicPartition) -> None:
        committed = group.offsets.get(partition)
        if committed is not None and queue.follow(group_id, committed.offset, committed.version):
            self._queues.watchers.wake(group_id)
