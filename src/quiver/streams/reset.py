"""Resets: move a group of either kind, without members, to another position in one topic."""

from typing import NamedTuple

from quiver.groups.service import Groups
from quiver.model.errors import GroupNotEmpty, InvalidRequest
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.streams.owners.port import PartitionFacts
from quiver.streams.service import Streams
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue


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
    """Of groups of this process; their partitions may be elsewhere."""

    def __init__(self, groups: Groups, streams: Streams, catalogue: TopicCatalogue) -> None:
        self._groups = groups
        self._streams = streams
        self._owners = streams.owners
        self._catalogue = catalogue

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
                await self._owners.queues.check_idle(group)
            changes = await self._changes(group, topic, to)
            await self._apply(group, topic, changes)
            return changes

    async def _changes(self, group: str, topic: Topic, to: ResetTarget) -> list[ResetOffset]:
        """What a reset would do."""
        old = await self._positions(group, topic)
        places = self._streams.partitions_of(topic.id)
        if isinstance(to, Position):
            found = await self._owners.partitions.find(places, to)
            return [ResetOffset(place.partition, old.get(place.partition), new) for place, new in found.items()]
        others = await self._positions(to.group, topic) if isinstance(to, LikeGroup) else {}
        if isinstance(to, LikeGroup) and not others:
            raise InvalidRequest(problem=f"group {to.group!r} has no position in topic {topic.name!r}")
        facts = await self._owners.partitions.facts(self._groups.group(group).id, dict.fromkeys(places))
        changes = []
        async for place in paced(places):
            if place in facts:
                number, before = place.partition, old.get(place.partition)
                if isinstance(to, LikeGroup):
                    wanted = others.get(number, before)
                else:
                    wanted = (facts[place].start if before is None else before) + to
                changes.append(ResetOffset(number, before, _limited(facts[place], wanted)))
        return changes

    async def _positions(self, group: str, topic: Topic) -> dict[int, int]:
        """Positions by partition, where the group has one."""
        if self._groups.group(group).kind == "queue":
            return await self._owners.queues.settled_offsets(topic, group)
        return (await self._owners.groups.committed(group)).get(topic.name, {})

    async def _apply(self, group: str, topic: Topic, changes: list[ResetOffset]) -> None:
        if self._groups.group(group).kind == "queue":
            await self._owners.queues.rewind(topic, group, {change.partition: change.new for change in changes})
            return
        offsets = {TopicPartition(topic.id, change.partition): change.new for change in changes}
        await self._streams.check_offsets(offsets)
        await self._streams.offsets.commit(group, {partition: (new, "") for partition, new in offsets.items()})


def _limited(facts: PartitionFacts, offset: int | None) -> int:
    """Within what is in the log."""
    return facts.start if offset is None else min(max(offset, facts.start), facts.last_stable)
