"""How far groups have come: the part of GroupService that keeps their offsets."""

import abc
from collections.abc import Iterable, Mapping

from quiver.groups.assignors import TopicPartition
from quiver.groups.events import Committed, Event, OffsetsCommitted, OffsetsForgotten
from quiver.groups.live_group import LiveGroup
from quiver.groups.table import Group, GroupTable
from quiver.model.errors import GroupNotEmpty
from quiver.system.clock import Clock
from quiver.system.pace import paced


class GroupOffsets(abc.ABC):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._table = GroupTable()

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
        if member_id is None and group.membership.members:
            raise GroupNotEmpty(group=name, members=len(group.membership.members))

    def _committed(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> list[tuple[TopicPartition, Committed]]:
        now_ms = self._clock.now_ms()
        return [(p, Committed(offset, now_ms, note)) for p, (offset, note) in offsets.items()]

    async def commit_decided(
        self, name: str, offsets: Mapping[TopicPartition, tuple[int, str]], transaction: int
    ) -> bool:
        """The offsets of a transaction that was committed: once, however often this is called.

        Returns whether this was the first time; GroupNotFound.
        """
        if transaction in self.group(name).transactions:
            return False
        await self._append(OffsetsCommitted(name, self._committed(offsets), transaction))
        return True

    async def begin_at(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets first positions, where the group has none yet."""
        group, now_ms = self.group(name), self._clock.now_ms()
        fresh = [(p, Committed(offset, now_ms)) for p, offset in offsets.items() if p not in group.offsets]
        if fresh:
            await self._append(OffsetsCommitted(name, fresh))

    async def advance(self, name: str, partition: TopicPartition, offset: int) -> None:
        """Moves the group's position on, if it is not as far already. Positions never go back this way."""
        committed = self.group(name).offsets.get(partition)
        if committed is None or committed.offset < offset:
            advanced = Committed(offset, self._clock.now_ms(), "" if committed is None else committed.metadata)
            await self._append(OffsetsCommitted(name, [(partition, advanced)]))

    async def forget_topic(self, topic_id: int) -> None:
        """The topic is gone, and with it every group's place in it."""
        async for name, group in paced(list(self._table.groups.items())):
            if any(partition.topic_id == topic_id for partition in group.offsets):
                await self._append(OffsetsForgotten(name, topic_id))
