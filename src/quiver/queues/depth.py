"""How many messages a queue group has not settled, in a partition and in a topic, and how old they are."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from quiver.delays.service import Delays
from quiver.groups.events import Group
from quiver.groups.service import Groups
from quiver.messages.append_time import append_time_ms
from quiver.model.errors import Closed, GroupNotFound, TopicNotFound
from quiver.model.queue import Pause
from quiver.model.topic import Topic
from quiver.partition.lazy_registry import LazyRegistry
from quiver.partition.partition import Partition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.state.port import LEVELS, GroupState
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_BLOCKED_KEYS_SHOWN = 20


class PartitionDepth(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    """Everything below is settled; None while the group has not begun there."""
    end_offset: int
    ready_by_level: list[int]
    leased: int = 0
    retrying: int = 0
    dead: int = 0
    oldest_ms: int | None = None
    """When the oldest message that is not settled arrived."""
    blocked_keys: Sequence[tuple[bytes, int]] = ()
    consumers: Mapping[str, int] = {}
    blocked: int = 0
    """Messages that wait for an earlier one of their key."""


class QueueDepth(NamedTuple):
    group: str
    ready: int
    """Can be received now."""
    ready_by_level: list[int]
    leased: int
    retrying: int
    """Given back, and not due yet."""
    delayed: int
    dead: int
    """Given up by the group since the broker was started."""
    oldest_age_ms: int
    """Of the oldest message that is not settled; 0 when there is none."""
    blocked_keys: list[tuple[bytes, int]]
    """Keys with messages that wait for an earlier one that is leased or retried, and how many; most first."""
    consumers: dict[str, int]
    """How many messages each holds."""
    paused_since_ms: int | None = None
    """Set while the group gets nothing from the topic."""
    pause_reason: str = ""
    blocked: int = 0
    """Messages that wait for an earlier one of their key."""


def queue_depth(group: str, parts: Iterable[PartitionDepth], *, now_ms: int, delayed: int) -> QueueDepth:
    """Over the partitions of a topic."""
    ready, blocked = [0] * LEVELS, list[tuple[bytes, int]]()
    consumers: dict[str, int] = {}
    leased = retrying = dead = oldest_age_ms = waiting = 0
    for part in parts:
        ready = [sum(pair) for pair in zip(ready, part.ready_by_level, strict=True)]
        leased, retrying, dead = leased + part.leased, retrying + part.retrying, dead + part.dead
        blocked += part.blocked_keys
        waiting += part.blocked
        if part.oldest_ms is not None:
            oldest_age_ms = max(oldest_age_ms, now_ms - part.oldest_ms)
        for consumer, held in part.consumers.items():
            consumers[consumer] = consumers.get(consumer, 0) + held
    blocked = sorted(blocked, key=lambda key: -key[1])[:_BLOCKED_KEYS_SHOWN]
    counts = (group, sum(ready), ready, leased, retrying, delayed, dead, oldest_age_ms)
    return QueueDepth(*counts, blocked, consumers, blocked=waiting)


class PartitionDepths:
    """Of queue groups, in the partitions of the topics that they have used."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        groups: Groups,
        queues: LazyRegistry[PartitionQueue],
        *,
        lease_clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._groups = groups
        self._queues = queues
        self._lease_clock = lease_clock

    async def of_group(self, group: str, *, with_age: bool = True) -> list[PartitionDepth]:
        """In every topic that the group has used."""
        topics, found = list[Topic](), list[PartitionDepth]()
        definition = self._groups.group(group)
        for topic_id in self._queues.topic_ids():
            if self._has_used(definition, topic_id):
                with contextlib.suppress(TopicNotFound):
                    topics.append(self._catalogue.topic_by_id(topic_id))
        for topic in sorted(topics, key=lambda topic: topic.name):
            found += await self.of_topic(topic, group, with_age=with_age)
        return found

    async def of_topic(self, topic: Topic, group: str, *, with_age: bool = True) -> list[PartitionDepth]:
        """Nothing when the topic was deleted meanwhile."""
        known, found = self._queues.of(topic.id), []
        of, now_ms = self._groups.group(group), self._lease_clock.now_ms()
        async for number, partition in paced(self._partitions.owned(topic.id)):
            try:
                depth = await partition_depth(partition, known.get(number), of, now_ms=now_ms, with_age=with_age)
            except Closed:
                return []
            found.append(depth._replace(topic=topic.name, partition=number))
        return found

    def groups_of(self, topic_id: int) -> set[str]:
        """The queue groups that have used a topic."""
        first = self._queues.get(topic_id, 0)
        ids = set() if first is None else first.group_ids
        names = {name for group_id in ids if (name := self._groups.name_of(group_id)) is not None}
        return {name for name in names if self._groups.group(name).kind == "queue"}

    def uses(self, group: str, topic_id: int) -> bool:
        """Whether it is a queue group that has used a topic."""
        found = self._groups.find(group)
        return found is not None and self._has_used(found, topic_id)

    def _has_used(self, group: Group, topic_id: int) -> bool:
        if group.kind != "queue":
            return False
        first = self._queues.get(topic_id, 0)
        return first is not None and first.state(group.id) is not None

    def group_id(self, group: str) -> int:
        """GroupNotFound."""
        return self._groups.group(group).id

    def is_known(self, group: str) -> bool:
        return self._groups.find(group) is not None

    def pause_of(self, group: str, topic_id: int) -> Pause | None:
        found = self._groups.find(group)
        return None if found is None else found.paused.get(topic_id)

    def check_use(self, group: str, topic: Topic) -> Group:
        """The queue group; GroupNotFound also when it has never used the topic."""
        if not self.uses(group, topic.id):
            raise GroupNotFound(
                f"there is no queue group {group!r} in topic {topic.name!r}; it begins with its first receive",
                group=group,
            )
        return self._groups.group(group)


class QueueDepths:
    def __init__(
        self, partitions: PartitionDepths, catalogue: TopicCatalogue, delays: Delays, *, clock: Clock
    ) -> None:
        self._partitions = partitions
        self._catalogue = catalogue
        self._delays = delays
        self._clock = clock

    async def of_all(self, topic: str) -> list[QueueDepth]:
        """Of every queue group that has used the topic, by name."""
        found = self._catalogue.topic(topic)
        # A group may be deleted while others are looked at.
        return [
            await self._depth(found, name)
            async for name in paced(await self.groups_using(topic))
            if self._partitions.uses(name, found.id)
        ]

    async def of(self, topic: str, group: str) -> QueueDepth:
        """GroupNotFound also when the group has never used the topic."""
        await self.groups_using(topic, group)
        return await self._depth(self._catalogue.topic(topic), group)

    async def groups_using(self, topic: str, only: str | None = None) -> list[str]:
        """The queue groups that have used a topic whose partition 0 this process owns; or one, or GroupNotFound."""
        found = self._catalogue.topic(topic)
        if only is None:
            return sorted(self._partitions.groups_of(found.id))
        self._partitions.check_use(only, found)
        return [only]

    async def owned(self, topic: str, groups: Sequence[str]) -> tuple[dict[str, list[PartitionDepth]], int]:
        """The partitions of this process by group, and how many messages are delayed there. A group that was deleted
        meanwhile is left out."""
        found = self._catalogue.topic(topic)
        parts = {
            name: await self._partitions.of_topic(found, name)
            async for name in paced(groups)
            if self._partitions.is_known(name)
        }
        return parts, self._delays.pending_count(found.id)

    async def _depth(self, topic: Topic, group: str) -> QueueDepth:
        parts = await self._partitions.of_topic(topic, group)
        self._catalogue.topic_by_id(topic.id)
        return self.of_parts(topic, group, parts, self._delays.pending_count(topic.id))

    def of_parts(self, topic: Topic, group: str, parts: Iterable[PartitionDepth], delayed: int) -> QueueDepth:
        """Over all partitions of a topic."""
        depth = queue_depth(group, parts, now_ms=self._clock.now_ms(), delayed=delayed)
        pause = self._partitions.pause_of(group, topic.id)
        return depth if pause is None else depth._replace(paused_since_ms=pause.since_ms, pause_reason=pause.reason)


async def partition_depth(
    partition: Partition, queue: PartitionQueue | None, group: Group, *, now_ms: int, with_age: bool
) -> PartitionDepth:
    """The caller fills in the topic and the number of the partition. The age costs a read."""
    log = partition.log
    state = None if queue is None else queue.state(group.id)
    if queue is None or state is None:
        ready = await _unread(partition, [log.start_offset] * LEVELS)
        oldest_ms = await append_time_ms(partition, log.start_offset) if with_age else None
        return PartitionDepth("", 0, None, partition.committed.last_stable, ready, oldest_ms=oldest_ms)
    counters, counts, available = queue.counters(group.id), state.counts(), state.available(now_ms)
    ready = [sum(pair) for pair in zip(available, await _unread(partition, _positions(state)), strict=True)]
    due = max(0, sum(available) - counts.read_ahead)
    lowest = queue.settled_offset(group.id) or 0
    return PartitionDepth(
        "",
        0,
        lowest,
        partition.committed.last_stable,
        ready,
        counts.leased,
        max(0, counts.retrying - due),
        0 if counters is None else counters.dead - queue.undone(group.id).dead,
        await append_time_ms(partition, lowest) if with_age else None,
        state.blocked_keys(now_ms, _BLOCKED_KEYS_SHOWN),
        state.held_by(),
        max(0, counts.read_ahead - sum(available)),
    )


def _positions(state: GroupState) -> list[int]:
    return [state.position(level) for level in range(LEVELS)]


async def _unread(partition: Partition, positions: Sequence[int]) -> list[int]:
    """Committed messages by level, from the position of the level on."""
    log, stable = partition.log, partition.committed.last_stable
    # Counted first: what comes meanwhile is counted too much then, and never too little. The log counts what is being
    # written, which no reader sees yet.
    open_ones = await log.count_by_priority(stable) if stable < log.end_offset else [0] * LEVELS
    counted: dict[int, list[int]] = {}
    for position in positions:
        if position not in counted:
            at = max(position, log.start_offset)
            counts = await log.count_by_priority(at) if at < stable else open_ones
            without = zip(counts, open_ones, partition.committed.aborted_counts(at, stable), strict=True)
            counted[position] = [max(0, count - later - aborted) for count, later, aborted in without]
    return [counted[position][level] for level, position in enumerate(positions)]
