"""Counters of queues: what was settled, by topic and group, and how the priorities are served."""

from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from quiver.groups.service import Groups
from quiver.model.errors import Closed
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.queues.state.port import LEVELS
from quiver.system.clock import Clock
from quiver.system.pace import Pace, paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

_WINDOW_MS = 60_000
"""Rates are of about the last minute."""
_SAMPLE_MS = 5_000


class Settled(msgspec.Struct, kw_only=True):
    """Since the broker was started; `in_flight` is now."""

    delivered: int = 0
    acks: int = 0
    nacks: int = 0
    rejects: int = 0
    extensions: int = 0
    dead: int = 0
    expired_leases: int = 0
    lost: int = 0
    in_flight: int = 0

    def add(self, other: "Settled") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Reliability(NamedTuple):
    total: Settled
    topics: dict[str, tuple[Settled, dict[str, Settled]]]
    """Of a topic, and of each group in it."""


class PartitionPriorities(NamedTuple):
    """Five values each, from critical to background."""

    stored: Sequence[int]
    ready: Sequence[int]
    in_flight: Sequence[int]
    enqueue_rate: Sequence[float]
    dequeue_rate: Sequence[float]
    last_served_ms: Sequence[int]
    """0: never since the broker was started."""


class Priorities(NamedTuple):
    stored: list[int]
    average_wait_ms: list[float]
    topics: dict[str, dict[int, PartitionPriorities]]
    delivered: list[int]
    """Since the broker was started: how many the average is of."""


class _Served(msgspec.Struct):
    """Of a partition, over all groups and by level."""

    in_flight: list[int] = msgspec.field(default_factory=lambda: [0] * LEVELS)
    messages: list[int] = msgspec.field(default_factory=lambda: [0] * LEVELS)
    last_ms: list[int] = msgspec.field(default_factory=lambda: [0] * LEVELS)


class QueueStats:
    def __init__(
        self,
        metadata: TopicCatalogue,
        partitions: Partitions,
        groups: Groups,
        queues: Queues,
        *,
        clock: Clock,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._groups = groups
        self._queues = queues
        self._clock = clock
        self._started_ms = clock.now_ms()
        self._served: dict[tuple[int, int], deque[tuple[int, list[int]]]] = {}

    async def reliability(self) -> Reliability:
        names = {group.id: name for name, group in self._groups.groups().items()}
        found = Reliability(Settled(), {})
        async for topic, _, _, queue in self._all():
            if queue is None:
                continue
            of_topic, of_groups = found.topics.setdefault(topic.name, (Settled(), {}))
            async for group_id in paced(queue.group_ids & names.keys()):
                settled = _settled(queue, group_id)
                for sum_ in (found.total, of_topic, of_groups.setdefault(names[group_id], Settled())):
                    sum_.add(settled)
        return found

    async def priorities(
        self, only: str | None = None, using: Mapping[str, Sequence[int]] | None = None
    ) -> Priorities:
        """Of all topics, or of one. `using` are the groups that use them, if all are known (`using` of every
        process)."""
        if using is None:
            using = await self.using(only)
        found = Priorities([0] * LEVELS, [0.0] * LEVELS, {}, [0] * LEVELS)
        delivered, waited_ms = found.delivered, [0] * LEVELS
        async for topic, number, partition, queue in self._all(only):
            shown = await self._partition(topic, number, partition, queue, using.get(topic.name, ()))
            if shown is None:
                continue
            found.topics.setdefault(topic.name, {})[number] = shown
            _add(found.stored, shown.stored)
            async for group_id in paced(() if queue is None else queue.group_ids):
                counters = None if queue is None else queue.counters(group_id)
                if counters is not None:
                    _add(delivered, counters.delivered_by_level)
                    _add(waited_ms, counters.waited_ms_by_level)
        ids = {topic.id for topic in self._metadata.topics()}
        self._served = {place: samples for place, samples in self._served.items() if place[0] in ids}
        found.average_wait_ms[:] = [wait / max(1, count) for wait, count in zip(waited_ms, delivered, strict=True)]
        return found

    async def _all(
        self, only: str | None = None
    ) -> "AsyncIterator[tuple[Topic, int, Partition, PartitionQueue | None]]":
        pace = Pace()
        for topic in self._metadata.topics() if only is None else [self._metadata.topic(only)]:
            known: Mapping[int, PartitionQueue] = self._queues.partition_queues(topic.id)
            for number, partition in self._partitions.owned(topic.id):
                await pace.turn()
                yield topic, number, partition, known.get(number)

    async def using(self, only: str | None = None) -> dict[str, list[int]]:
        """Ids of groups by the topics that they use, as far as this process knows: that they do is in partition 0,
        whatever other partitions they have begun."""
        topics = self._metadata.topics() if only is None else [self._metadata.topic(only)]
        firsts = [(topic.name, self._queues.partition_queues(topic.id).get(0)) async for topic in paced(topics)]
        return {name: list(first.group_ids) for name, first in firsts if first is not None}

    async def _partition(
        self,
        topic: Topic,
        number: int,
        partition: Partition,
        queue: PartitionQueue | None,
        group_ids: Collection[int],
    ) -> PartitionPriorities | None:
        """None when the topic was deleted meanwhile."""
        log, now_ms = partition.log, self._clock.now_ms()
        try:
            stored = await log.count_by_priority(log.start_offset)
            recent = [0] * LEVELS
            if any(stored):
                recent = await log.count_by_priority(await log.offset_for_time(now_ms - _WINDOW_MS))
            ready = await _ready(partition, queue, group_ids, stored, self._queues.lease_clock.now_ms())
        except Closed:
            return None
        window_ms = min(_WINDOW_MS, max(1_000, now_ms - self._started_ms))
        served = _Served() if queue is None else await _served(queue)
        return PartitionPriorities(
            stored=stored,
            ready=ready,
            in_flight=served.in_flight,
            enqueue_rate=[count * 1000 / window_ms for count in recent],
            dequeue_rate=self._rate((topic.id, number), served.messages, now_ms),
            last_served_ms=served.last_ms,
        )

    def _rate(self, place: tuple[int, int], served: list[int], now_ms: int) -> list[float]:
        """Messages per second since the sample that is about a window old, or since the start."""
        samples = self._served.setdefault(place, deque([(self._started_ms, [0] * LEVELS)]))
        while len(samples) > 1 and samples[1][0] <= now_ms - _WINDOW_MS:
            samples.popleft()
        if now_ms - samples[-1][0] >= _SAMPLE_MS:
            samples.append((now_ms, served))
        since_ms, before = samples[0]
        elapsed_ms = max(1_000, now_ms - since_ms)
        return [(now - then) * 1000 / elapsed_ms for now, then in zip(served, before, strict=True)]


def merged_reliability(parts: Iterable[Reliability]) -> Reliability:
    """Of several processes."""
    found = Reliability(Settled(), {})
    for part in parts:
        found.total.add(part.total)
        for name, (of_topic, of_groups) in part.topics.items():
            total, groups = found.topics.setdefault(name, (Settled(), {}))
            total.add(of_topic)
            for group, settled in of_groups.items():
                groups.setdefault(group, Settled()).add(settled)
    return found


def merged_priorities(parts: Iterable[Priorities]) -> Priorities:
    """Of several processes."""
    found = Priorities([0] * LEVELS, [0.0] * LEVELS, {}, [0] * LEVELS)
    waited_ms = [0.0] * LEVELS
    for part in parts:
        _add(found.stored, part.stored)
        _add(found.delivered, part.delivered)
        pairs = zip(part.average_wait_ms, part.delivered, strict=True)
        waited_ms = [sum_ + wait * count for sum_, (wait, count) in zip(waited_ms, pairs, strict=True)]
        for name, partitions in part.topics.items():
            found.topics.setdefault(name, {}).update(partitions)
    for name, partitions in found.topics.items():
        found.topics[name] = dict(sorted(partitions.items()))
    found.average_wait_ms[:] = [wait / max(1, count) for wait, count in zip(waited_ms, found.delivered, strict=True)]
    return found


def _settled(queue: PartitionQueue, group_id: int) -> Settled:
    state, counters, undone = queue.state(group_id), queue.counters(group_id), queue.undone(group_id)
    settled = Settled(in_flight=0 if state is None else state.counts().leased)
    if counters is not None:
        for name in ("delivered", "acks", "nacks", "rejects", "extensions", "dead", "expired_leases", "lost"):
            setattr(settled, name, getattr(counters, name) - getattr(undone, name))
    return settled


async def _served(queue: PartitionQueue) -> _Served:
    served = _Served()
    async for group_id in paced(queue.group_ids):
        state, counters = queue.state(group_id), queue.counters(group_id)
        if state is not None:
            _add(served.in_flight, state.counts().by_level_leased)
        if counters is not None:
            _add(served.messages, counters.delivered_by_level)
            served.last_ms = [
                max(pair) for pair in zip(served.last_ms, counters.last_served_ms_by_level, strict=True)
            ]
    return served


def _add(sums: list[int], more: Sequence[int]) -> None:
    for level, count in enumerate(more):
        sums[level] += count


async def _ready(
    partition: Partition,
    queue: PartitionQueue | None,
    group_ids: Collection[int],
    stored: Sequence[int],
    now_ms: int,
) -> list[int]:
    """What could be received now, over all groups; where there is none yet, by the first that comes."""
    ready = [0] * LEVELS if group_ids else list(stored)
    async for group_id in paced(group_ids):
        state = None if queue is None else queue.state(group_id)
        if state is None:
            _add(ready, stored)
            continue
        _add(ready, state.available(now_ms))
        unread: dict[int, list[int]] = {}
        for level, position in enumerate([state.position(level) for level in range(LEVELS)]):
            if position not in unread:
                unread[position] = await partition.log.count_by_priority(position)
            ready[level] += unread[position][level]
    return ready
