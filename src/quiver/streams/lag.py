"""Lag: how far a group of either kind is behind the end of the partitions that it reads."""

from typing import NamedTuple

from quiver.groups.service import Groups
from quiver.messages.append_time import append_time_ms
from quiver.model.names import TopicPartition
from quiver.partition.partition import Partition
from quiver.queues.depth import PartitionDepth
from quiver.queues.service import Queues
from quiver.streams.service import Streams
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.topics.partitions import Partitions


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
    """Those messages, which are not part of the lag."""


class GroupLag:
    def __init__(
        self, groups: Groups, streams: Streams, queues: Queues, partitions: Partitions, *, clock: Clock
    ) -> None:
        self.groups = groups
        self._streams = streams
        self._queues = queues
        self._partitions = partitions
        self._clock = clock

    async def of(self, group: str, *, with_age: bool = True) -> list[PartitionLag]:
        """The lag in every partition of this process, for the topics that the group reads or has read.

        Each age needs a read.
        """
        definition = self.groups.group(group)
        if definition.kind == "queue":
            return [self._queue_lag(part) for part in await self._queues.depths.of_group(group, with_age=with_age)]
        group_id, state = definition.id, self._streams.group(group)
        owners = {p: member.id for member in state.membership.members.values() for p in member.owned}
        found = []
        for topic_id in sorted({partition.topic_id for partition in (*state.offsets, *owners)}):
            name = self._streams.topic_name(topic_id)
            partitions = self._partitions.owned(topic_id) if name is not None else ()
            async for number, partition in paced(partitions):
                place = TopicPartition(topic_id, number)
                committed, position = state.offsets.get(place), self._streams.positions.shown(group_id, place)
                offset = max(partition.log.start_offset, position or 0)
                unread = max(0, partition.committed.visible_end - offset)
                found.append(
                    PartitionLag(
                        name or "",
                        number,
                        position,
                        partition.committed.last_stable,
                        unread,
                        await self._age_ms(partition, offset) if with_age and unread else 0,
                        owners.get(place),
                        committed.metadata if committed else "",
                    )
                )
        return found

    def _queue_lag(self, part: PartitionDepth) -> PartitionLag:
        """Counts what is ready: messages that consumers have leased are being processed."""
        age_ms = 0 if part.oldest_ms is None else max(0, self._clock.now_ms() - part.oldest_ms)
        return PartitionLag(
            part.topic,
            part.partition,
            part.committed,
            part.end_offset,
            sum(part.ready_by_level),
            age_ms,
            None,
            leased=part.leased,
            retrying=part.retrying,
            blocked_keys=len(part.blocked_keys),
            blocked=part.blocked,
        )

    async def _age_ms(self, partition: Partition, offset: int) -> int:
        """The age of the message at an offset; 0 if there is none, or if it cannot be read."""
        appended_ms = await append_time_ms(partition, offset)
        return 0 if appended_ms is None else max(0, self._clock.now_ms() - appended_ms)
