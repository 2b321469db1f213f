"""Resets: move a group of either kind, without members, to another position in one topic."""

from typing import NamedTuple

from quiver.groups.service import Groups
from quiver.messages.position_offset import position_offset
from quiver.model.errors import GroupNotEmpty, InvalidRequest
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.service import Queues
from quiver.streams.service import Streams
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions


class ResetOffset(NamedTuple):
    partition: int
    old: int | None
    new: int


class LikeGroup(NamedTuple):
    """To where another group is; where that has no position, the group stays."""

    group: str


ResetTarget = Position | int | LikeGroup
"""A position, a number of messages to move by, or another group's positions."""


class OffsetReset:
    def __init__(
        self, groups: Groups, streams: Streams, queues: Queues, catalogue: TopicCatalogue, partitions: Partitions
    ) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._catalogue = catalogue
        self._partitions = partitions

    async def reset(self, group: str, topic_name: str, to: ResetTarget, *, dry_run: bool) -> list[ResetOffset]:
        """Moves the group.

        One at a time: each reset starts from the positions that the one before it set.
        """
        topic = self._catalogue.topic(topic_name)
        self._groups.group(group)
        if dry_run:
            return await self._changes(group, topic, to)
        async with self._groups.locks.hold(group):
            members = self._streams.group(group).membership.members
            if members:
                raise GroupNotEmpty(group=group, members=len(members))
            if self._groups.group(group).kind == "queue":
                self._queues.check_idle(group)
            changes = await self._changes(group, topic, to)
            await self._apply(group, topic, changes)
            return changes

    async def _changes(self, group: str, topic: Topic, to: ResetTarget) -> list[ResetOffset]:
        """What a reset would do, in the partitions of this process."""
        old = self._positions(group, topic)
        if isinstance(to, LikeGroup):
            others = self._positions(to.group, topic)
            if not others:
                raise InvalidRequest(problem=f"group {to.group!r} has no position in topic {topic.name!r}")
            return [
                ResetOffset(number, old.get(number), _limited(partition, others.get(number, old.get(number))))
                async for number, partition in paced(self._partitions.owned(topic.id))
            ]
        return [
            ResetOffset(number, old.get(number), await _resolve(partition, to, old.get(number)))
            async for number, partition in paced(self._partitions.owned(topic.id))
        ]

    def _positions(self, group: str, topic: Topic) -> dict[int, int]:
        """Positions by partition, where the group has one."""
        definition = self._groups.group(group)
        if definition.kind == "queue":
            return self._queues.settled_offsets(topic, group)
        return {
            partition.partition: position
            for partition in self._streams.group(group).offsets
            if partition.topic_id == topic.id
            and (position := self._streams.positions.shown(definition.id, partition)) is not None
        }

    async def _apply(self, group: str, topic: Topic, changes: list[ResetOffset]) -> None:
        if self._groups.group(group).kind == "queue":
            await self._queues.rewind(topic, group, {change.partition: change.new for change in changes})
            return
        offsets = {TopicPartition(topic.id, change.partition): change.new for change in changes}
        self._streams.check_offsets(offsets)
        await self._streams.offsets.commit(group, {partition: (new, "") for partition, new in offsets.items()})


async def _resolve(partition: Partition, to: Position | int, old: int | None) -> int:
    """The offset of a reset, limited to what is in the log."""
    if not isinstance(to, int):
        return await position_offset(partition, to)
    return _limited(partition, (partition.log.start_offset if old is None else old) + to)


def _limited(partition: Partition, offset: int | None) -> int:
    first, last = partition.log.start_offset, partition.committed.last_stable
    return first if offset is None else min(max(offset, first), last)
