"""Committed offsets of stream groups.

A commit takes effect when its record is applied, in the order of the journal. Acks are not commits:
`streams.positions` combines the two.
"""

from collections.abc import Iterable, Mapping

from quiver.groups.service import Groups
from quiver.model.errors import GroupNotEmpty
from quiver.model.names import TopicPartition
from quiver.streams.events import Committed, OffsetsCommitted, OffsetsForgotten
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.members import Members
from quiver.streams.positions import Positions
from quiver.system.clock import Clock
from quiver.system.pace import paced


class Offsets:
    def __init__(
        self, groups: Groups, journal: StreamJournal, members: Members, positions: Positions, *, clock: Clock
    ) -> None:
        self._groups = groups
        self._journal = journal
        self._members = members
        self._positions = positions
        self._clock = clock

    async def commit(
        self,
        name: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Commits the next offset and metadata by partition.

        A member commits for what it owns. Tools commit without a member, if the group has none.
        """
        self.check_commit(name, offsets, member_id=member_id, generation=generation)
        # No await since the check: commits are journaled in the order in which they were allowed.
        await self._append(OffsetsCommitted(self._groups.group(name).id, self.committed(offsets)))

    def check_commit(
        self, name: str, partitions: Iterable[TopicPartition], *, member_id: str | None, generation: int | None
    ) -> None:
        """Whether a commit is allowed now."""
        # A commit is journaled after a membership that is being written, so that membership must allow it too.
        memberships = self._members.memberships(name)
        if member_id is not None:
            for membership in memberships:
                for partition in partitions:
                    membership.check_owner(member_id, generation, partition)
            return
        members = set[str]().union(*(membership.members for membership in memberships))
        if members:
            raise GroupNotEmpty(group=name, members=len(members))

    async def commit_decided(
        self, name: str, offsets: Mapping[TopicPartition, tuple[int, str]], transaction: int
    ) -> None:
        """Applies the offsets of a committed transaction once, however often this is called. Raises GroupNotFound."""
        if transaction not in self._journal.group(name).transactions:
            event = OffsetsCommitted(self._groups.group(name).id, self.committed(offsets), transaction)
            await self._append(event)

    async def commit_prepared(
        self, name: str, offsets: list[tuple[TopicPartition, Committed]], transaction: int
    ) -> None:
        """The same, for offsets that were prepared."""
        await self._append(OffsetsCommitted(self._groups.group(name).id, offsets, transaction))

    async def begin_at(self, name: str, offsets: Mapping[TopicPartition, int], *, is_commit: bool = True) -> None:
        """Sets first positions where the group has none yet. This is not a commit: the group only begins to read
        there."""
        known, now_ms, version = self._journal.group(name).offsets, self._clock.now_ms(), 1 if is_commit else 0
        fresh = [
            (partition, Committed(offset, now_ms, version=version))
            for partition, offset in offsets.items()
            if partition not in known
        ]
        if fresh:
            await self._journal.append(OffsetsCommitted(self._groups.group(name).id, fresh, is_first=True))

    async def forget_topic(self, topic_id: int) -> None:
        """Forgets every group's position in a topic that is gone."""
        async for group_id, group in paced(self._journal.groups()):
            if any(partition.topic_id == topic_id for partition in group.offsets):
                await self._journal.append(OffsetsForgotten(group_id, topic_id))

    async def _append(self, event: OffsetsCommitted) -> None:
        await self._journal.append(event)
        await self._positions.tell(event.group_id, [partition for partition, _ in event.offsets])

    def committed(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> list[tuple[TopicPartition, Committed]]:
        """Offsets as they are journaled when they are committed now."""
        now_ms = self._clock.now_ms()
        return [(partition, Committed(offset, now_ms, note)) for partition, (offset, note) in offsets.items()]
