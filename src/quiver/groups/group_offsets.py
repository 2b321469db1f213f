"""What groups were told about how far they have come: the part of GroupService that keeps their commits.

A record decides when it is applied, in the order of the journal. Acks are no commits: `broker.positions` puts the two
together.
"""

import abc
from collections.abc import Callable, Iterable, Mapping

from quiver.groups.events import Committed, Event, OffsetsCommitted, OffsetsForgotten
from quiver.groups.live_group import LiveGroup
from quiver.groups.table import Group, GroupTable
from quiver.model.errors import GroupNotEmpty
from quiver.model.topic import Topic
from quiver.model.topic_partition import TopicPartition
from quiver.system.clock import Clock, SteadyClock
from quiver.system.pace import paced


class GroupOffsets(abc.ABC):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._table = GroupTable()
        self.on_committed: Callable[[str, Iterable[TopicPartition]], None] = lambda name, partitions: None
        """Called when a commit is applied, in the same step: nobody sees the one without what follows from it."""

    @abc.abstractmethod
    def group(self, name: str) -> Group:
        """GroupNotFound if there is none."""

    @abc.abstractmethod
    def _live_of(self, name: str) -> LiveGroup: ...

    @abc.abstractmethod
    async def _append(self, event: Event) -> None:
        """Returns once the event is on disk and applied."""

    async def commit(
        self,
        name: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Records how far the group has come: next offset and metadata by partition.

        A member commits what it owns. Without a member the group must be empty: that is for tools.
        """
        self.check_commit(name, offsets, member_id=member_id, generation=generation)
        # No await since the check: commits are journaled in the order in which they were allowed.
        await self._append(OffsetsCommitted(name, self._committed(offsets)))

    def check_commit(
        self, name: str, partitions: Iterable[TopicPartition], *, member_id: str | None, generation: int | None
    ) -> None:
        """Whether a commit is allowed now."""
        group = self.group(name)
        if member_id is not None:
            # A commit is journaled behind the membership that is being written, so that one must allow it too.
            for membership in filter(None, (group.membership, self._live_of(name).coming)):
                for partition in partitions:
                    membership.check_owner(member_id, generation, partition)
        coming = self._live_of(name).coming or group.membership
        members = len(group.membership.members.keys() | coming.members.keys())
        if member_id is None and members:
            raise GroupNotEmpty(group=name, members=members)

    def _committed(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> list[tuple[TopicPartition, Committed]]:
        now_ms = self._clock.now_ms()
        return [(p, Committed(offset, now_ms, note)) for p, (offset, note) in offsets.items()]

    async def commit_decided(
        self, name: str, offsets: Mapping[TopicPartition, tuple[int, str]], transaction: int
    ) -> None:
        """The offsets of a transaction that was committed: once, however often this is called; GroupNotFound."""
        if transaction not in self.group(name).transactions:
            await self._append(OffsetsCommitted(name, self._committed(offsets), transaction))

    async def begin_at(self, name: str, offsets: Mapping[TopicPartition, int], *, is_told: bool = True) -> None:
        """Sets first positions, where the group has none yet. Not `is_told`: it only begins to use the partitions."""
        group, now_ms, version = self.group(name), self._clock.now_ms(), 1 if is_told else 0
        fresh = [
            (partition, Committed(offset, now_ms, version=version))
            for partition, offset in offsets.items()
            if partition not in group.offsets
        ]
        if fresh:
            await self._append(OffsetsCommitted(name, fresh, is_first=True))

    @abc.abstractmethod
    async def topic_changed(self, topic: Topic) -> None: ...

    async def topic_removed(self, topic: Topic) -> None:
        """The topic is gone, and with it every group's position in it."""
        await self.topic_changed(topic)
        async for name, group in paced(list(self._table.groups.items())):
            if any(partition.topic_id == topic.id for partition in group.offsets):
                await self._append(OffsetsForgotten(name, topic.id))
