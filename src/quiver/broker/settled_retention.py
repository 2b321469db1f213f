"""Removes messages that every group is done with, after the time that the topic's settings say."""

from quiver.cluster.placement import Placement
from quiver.groups.events import Group
from quiver.groups.service import Groups
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.service import Queues
from quiver.streams.service import Streams
from quiver.system.clock import Clock


class SettledRetention:
    def __init__(
        self, groups: Groups, streams: Streams, queues: Queues, placement: Placement, *, clock: Clock
    ) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._placement = placement
        self._clock = clock

    async def apply(self, topic: Topic, number: int, partition: Partition) -> None:
        """Whole segments go. Nothing does while no group has begun, or while one has not begun in the partition."""
        after_ms = topic.config.settled_retention_ms
        lowest = None if after_ms is None else await self._lowest(topic, number)
        if after_ms is None or lowest is None or lowest <= partition.log.start_offset:
            return
        old = await partition.log.offset_for_time(self._clock.now_ms() - after_ms)
        if min(lowest, old) > partition.log.start_offset:
            await partition.drop_below(min(lowest, old))

    async def _lowest(self, topic: Topic, number: int) -> int | None:
        """Everything below is settled for every group that uses the topic."""
        found: list[int] = []
        for group in self._groups.groups().values():
            if self._uses(group, topic):
                position = await self._position(group, TopicPartition(topic.id, number))
                if position is None:
                    return None
                found.append(position)
        return min(found, default=None)

    def _uses(self, group: Group, topic: Topic) -> bool:
        """A stream group of another worker may use any topic."""
        if group.kind == "queue":
            return self._queues.depths.uses(group.name, topic.id)
        if self._placement.group_worker(group.name) != self._placement.worker:
            return True
        state = self._streams.group(group.name)
        owned = (place for member in state.membership.members.values() for place in member.owned)
        return any(place.topic_id == topic.id for place in (*state.offsets, *owned))

    async def _position(self, group: Group, place: TopicPartition) -> int | None:
        if group.kind == "stream":
            if self._placement.group_worker(group.name) != self._placement.worker:
                return None
            found = await self._streams.positions.of(group.id, [place])
            return found[place].position if place in found else None
        queue = self._queues.partition_queues(place.topic_id).get(place.partition)
        return None if queue is None else queue.settled_offset(group.id)
