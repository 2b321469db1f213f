"""Lag: how far a group of either kind is behind the end of the partitions that it reads."""

from collections.abc import Collection
from typing import NamedTuple

from quiver.groups.service import Groups
from quiver.model.names import TopicPartition
from quiver.queues.depth import PartitionDepth
from quiver.queues.service import Queues
from quiver.streams.positions import GroupPosition
from quiver.streams.service import Streams
from quiver.system.clock import Clock
from quiver.system.pace import paced


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    end_offset: int
    messages: int
    time_ms: int
    """Age of the oldest message that the group has not committed; 0 when there is none."""
    owner: str | None
    metadata: str = ""
    leased: int = 0
    """Leased by consumers of a queue group, and therefore not part of the lag."""
    retrying: int = 0
    blocked_keys: int = 0
    """Keys of a queue group whose messages wait for an earlier one; at most 20 per partition are counted."""
    blocked: int = 0
    """Those messages, all of them. They are part of the lag."""


class GroupLag:
    def __init__(self, groups: Groups, streams: Streams, queues: Queues, *, clock: Clock) -> None:
        self.groups = groups
        self._streams = streams
        self._queues = queues
        self._clock = clock

    async def of(
        self, group: str, *, with_age: bool = True, used: Collection[int] | None = None
    ) -> list[PartitionLag]:
        """The lag in every partition of the topics that the group reads or has read. Each age needs a read.

        Of a queue group: in the partitions of this process, of those topics that are known to be `used`. Of a stream
        group that another process has: nothing.
        """
        definition = self.groups.group(group)
        if definition.kind == "queue":
            depths = await self._queues.depths.of_group(group, with_age=with_age, topic_ids=used)
            return [self._queue_lag(part) for part in depths]
        if not self._streams.owns(definition.id):
            return []
        state = self._streams.group(group)
        owners = {p: member.id for member in state.membership.members.values() for p in member.owned}
        topics = sorted({partition.topic_id for partition in (*state.offsets, *owners)})
        places = [place for topic_id in topics for place in self._streams.partitions_of(topic_id)]
        positions = await self._streams.positions.of(definition.id, places, with_age=with_age, is_look=True)
        names = {topic_id: self._streams.topic_name(topic_id) for topic_id in topics}
        return [
            self._stream_lag(names[place.topic_id] or "", place, positions[place], owners.get(place))
            async for place in paced(places)
            if place in positions
        ]

    def _stream_lag(self, topic: str, place: TopicPartition, known: GroupPosition, owner: str | None) -> PartitionLag:
        facts, position = known.facts, known.shown
        offset = max(facts.start, position or 0)
        return PartitionLag(
            topic,
            place.partition,
            position,
            facts.last_stable,
            max(0, facts.visible_end - offset),
            0 if facts.oldest_ms is None else max(0, self._clock.now_ms() - facts.oldest_ms),
            owner,
            known.committed.metadata if known.committed else "",
        )

    def _queue_lag(self, part: PartitionDepth) -> PartitionLag:
        """Counts what is ready, or will be after an earlier message of its key: messages that consumers have leased
        are being processed."""
        age_ms = 0 if part.oldest_ms is None else max(0, self._clock.now_ms() - part.oldest_ms)
        return PartitionLag(
            part.topic,
            part.partition,
            part.committed,
            part.end_offset,
            sum(part.ready_by_level) + part.blocked,
            age_ms,
            None,
            leased=part.leased,
            retrying=part.retrying,
            blocked_keys=len(part.blocked_keys),
            blocked=part.blocked,
        )
