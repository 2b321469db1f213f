"""Positions of stream groups: the one place that knows them, and applies commits to what members have leased.

Each fact is kept once. Commits are in the journal of stream groups, with a version that counts them; what members
have acked since is in the queue journal of the partition, which records the version that it follows. Nothing is
copied from one to the other: the position is computed from what is decided and on disk.

In one process a commit takes effect in both when its record is applied, in one step. The owner of a partition that is
elsewhere is told before the commit returns; one that was not told (it or the group's owner was killed) asks when it
opens, and follows when it is next asked for anything.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from quiver.model.names import TopicPartition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.streams.events import Committed, Event, OffsetsCommitted
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.owners.owners import StreamOwners
from quiver.streams.owners.port import Commit, PartitionFacts
from quiver.system.pace import paced


class GroupPosition(NamedTuple):
    committed: Committed | None
    facts: PartitionFacts

    @property
    def position(self) -> int | None:
        """The next offset to read: everything below is committed or acked. None if the group has not begun."""
        return None if self.committed is None else max(self.committed.offset, self.facts.settled or 0)

    @property
    def next_offset(self) -> int:
        """The position, or the earliest offset if the group has not begun or the log begins after its position."""
        return max(self.position or 0, self.facts.start)

    @property
    def shown(self) -> int | None:
        """The position as users see it: also None while nothing was committed or acked."""
        position = self.position
        if position is None or self.committed is None:
            return None
        return None if self.committed.version == 0 and position <= self.committed.offset else position


class Positions:
    def __init__(self, journal: StreamJournal, queues: Queues, owners: StreamOwners) -> None:
        self._journal = journal
        self._queues = queues
        self._owners = owners
        self._behind: set[TopicPartition] = set()
        """Where groups elsewhere may have committed something that the queue of the partition has not seen."""
        journal.subscribe(self._applied)
        queues.subscribe(self._opened)

    async def of(
        self, group_id: int, partitions: Iterable[TopicPartition], *, with_age: bool = False
    ) -> dict[TopicPartition, GroupPosition]:
        """Partitions that do not exist (any more) are left out. The group is one of this process."""
        group = self._journal.find(group_id)
        known = {place: None if group is None else group.offsets.get(place) for place in partitions}
        commits = {place: None if found is None else _commit(found) for place, found in known.items()}
        facts = await self._owners.partitions.facts(group_id, commits, with_age=with_age)
        return {place: GroupPosition(known[place], found) for place, found in facts.items()}

    def commit(self, group_id: int, partition: TopicPartition) -> Commit | None:
        """What a group of this process has committed; None if it has not begun there."""
        group = self._journal.find(group_id)
        committed = None if group is None else group.offsets.get(partition)
        return None if committed is None else _commit(committed)

    async def commits(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, dict[int, Commit]]:
        """What the groups of this process have committed in partitions, by group id."""
        wanted, found = set(partitions), dict[TopicPartition, dict[int, Commit]]()
        async for group_id, group in paced(self._journal.groups()):
            for place in wanted & group.offsets.keys():
                found.setdefault(place, {})[group_id] = _commit(group.offsets[place])
        return found

    async def tell(self, group_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Other owners of these partitions learn what the group has committed there."""
        if not self._owners.has_others:
            return
        commits = {place: self.commit(group_id, place) for place in partitions}
        await self._owners.partitions.follow(
            group_id, {place: commit for place, commit in commits.items() if commit is not None}
        )

    async def standings(self, partition: TopicPartition) -> dict[int, int]:
        """The positions of all groups in a partition of this process, by group id."""
        commits = (await self._owners.groups.commits([partition])).by_partition.get(partition, {})
        queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
        found = {}
        for group_id, commit in commits.items():
            is_followed = queue is not None and queue.version(group_id) == commit.version
            settled = queue.settled_offset(group_id) if queue is not None and is_followed else None
            found[group_id] = max(commit.offset, settled or 0)
        return found

    async def catch_up(self) -> None:
        """The queues of partitions follow the commits of groups elsewhere that they have not seen."""
        places, self._behind = self._behind, set()
        if not places:
            return
        try:
            found = await self._owners.groups.commits(places)
        except BaseException:
            self._behind |= places
            raise
        if not found.is_complete:
            self._behind |= places
        for place, by_group in found.by_partition.items():
            queue = self._queues.partition_queues(place.topic_id).get(place.partition)
            if queue is not None:
                for group_id, commit in by_group.items():
                    self._queues.follow(queue, group_id, commit.offset, commit.version)

    def _opened(self, queue: PartitionQueue) -> None:
        """Called when the journal of a partition queue was read: it follows the commits that it has not seen."""
        if self._journal.problem is not None or not queue.group_ids:
            return
        if self._owners.has_others:
            self._behind.add(queue.place)
        for group_id in queue.group_ids:
            commit = self.commit(group_id, queue.place)
            if commit is not None:
                self._queues.follow(queue, group_id, commit.offset, commit.version)

    def _applied(self, event: Event) -> None:
        if not isinstance(event, OffsetsCommitted):
            return
        for partition, _ in event.offsets:
            queue = self._queues.partition_queues(partition.topic_id).get(partition.partition)
            commit = self.commit(event.group_id, partition)
            if queue is not None and commit is not None:
                self._queues.follow(queue, event.group_id, commit.offset, commit.version)


def _commit(committed: Committed) -> Commit:
    return Commit(committed.offset, committed.version)
