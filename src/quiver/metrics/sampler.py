"""One look per second at what the broker does, for everybody who watches: rates, busy topics, the backlog."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from quiver.metrics.backlog import Backlog, BacklogCounter, GroupBacklog
from quiver.metrics.history import History
from quiver.model.errors import TopicNotFound
from quiver.queues.service import Queues
from quiver.system.clock import Clock
from quiver.system.pace import Pace
from quiver.telemetry.gateway_counts import GatewayCounts
from quiver.telemetry.histogram import LATENCY_SECONDS, quantile
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

EVERY_SECONDS = 1.0
HISTORY_POINTS = 900
_LONGEST_PAUSE_SECONDS = 5.0
_BACKLOG_SECONDS = 5.0
_MOST_TIME = 0.01
"""Of the time that passes: with very many partitions there are fewer looks."""
TOP_TOPICS = 10


class Rates(NamedTuple):
    """Per second."""

    published_messages: float = 0.0
    published_bytes: float = 0.0
    read_messages: float = 0.0
    read_bytes: float = 0.0
    delivered: float = 0.0
    acked: float = 0.0
    nacked: float = 0.0
    dead: float = 0.0


class TopicRates(NamedTuple):
    published_per_second: float = 0.0
    read_per_second: float = 0.0


class BusyTopic(NamedTuple):
    topic: str
    rates: TopicRates
    size_bytes: int


class Sample(NamedTuple):
    number: int
    """Rises with each."""
    time_ms: int
    rates: Rates
    publish_p99_ms: float
    """Of the requests that published since the sample before; 0 without any."""
    backlog: Backlog
    topics: int
    connections: int
    top_topics: Sequence[BusyTopic]
    """The busiest first."""


_TopicCounts = tuple[int, int, int, int]
_QueueCounts = tuple[int, int, int, int]
_NOTHING = (0, 0, 0, 0)


class Sampler:
    """Counters are compared with those of the sample before. What is deleted meanwhile takes its counts with it and
    makes no rate negative."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        queues: Queues,
        backlog: BacklogCounter,
        *,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._queues = queues
        self._counter = backlog
        self._clock = clock
        self.gateways: list[GatewayCounts] = []
        self._history = History(HISTORY_POINTS)
        self._topics: dict[int, _TopicCounts] = {}
        self._queue_counts: dict[tuple[int, int], _QueueCounts] = {}
        self._publishes = [0] * (len(LATENCY_SECONDS) + 1)
        self._rates: dict[int, TopicRates] = {}
        """Of topics in which something happened between the last two samples."""
        self._backlog = Backlog()
        self._looked_at = 0.0
        self._latest: Sample | None = None
        self._looking = asyncio.Lock()
        self._news = asyncio.Event()
        self._is_stopped = False
        self.tasks = [SupervisedTask("sampler", self._run), SupervisedTask("backlog", self._count_backlog)]

    def start(self) -> None:
        for task in self.tasks:
            task.start()

    async def stop(self) -> None:
        """Whoever waits for a sample gets None."""
        self._is_stopped = True
        self._news.set()
        for task in self.tasks:
            await task.stop()

    async def latest(self) -> Sample:
        """The newest; taken now if there is none, or if nobody takes any."""
        async with self._looking:
            if self._latest is not None and self._clock.monotonic() - self._looked_at < 2 * _LONGEST_PAUSE_SECONDS:
                return self._latest
            self._backlog = await self._counter.count()
            return await self._look()

    async def following(self, number: int) -> Sample | None:
        """The newest once there is one after `number`; None when the broker stops."""
        while not self._is_stopped:
            if self._latest is not None and self._latest.number > number:
                return self._latest
            await self._news.wait()
        return None

    async def history(self) -> dict[str, list[float]]:
        """Of the last minutes: `seconds` has the time of each point, the others its values."""
        return self._history.columns()

    async def group_backlogs(self) -> Sequence[GroupBacklog]:
        """By topic and group, some seconds old."""
        return self._counter.groups

    async def topic_rates(self) -> Mapping[int, TopicRates]:
        """By topic id, where anything has happened."""
        return self._rates

    async def _run(self) -> None:
        while True:
            began = self._clock.monotonic()
            async with self._looking:
                await self._look()
            took = self._clock.monotonic() - began
            await asyncio.sleep(min(_LONGEST_PAUSE_SECONDS, max(EVERY_SECONDS - took, took / _MOST_TIME)))

    async def _count_backlog(self) -> None:
        while True:
            began = self._clock.monotonic()
            self._backlog = await self._counter.count()
            took = self._clock.monotonic() - began
            await asyncio.sleep(max(_BACKLOG_SECONDS, took / _MOST_TIME))

    async def _look(self) -> Sample:
        is_first, now = self._latest is None, self._clock.monotonic()
        seconds, self._looked_at = max(0.001, now - self._looked_at), now
        topics, settled = await self._new_topic_counts(), await self._new_queue_counts()
        if is_first:  # counters since the start are no rate
            return self._show(Rates())
        totals = [sum(column) for column in zip(_NOTHING, *topics.values(), strict=True)]
        self._rates = {
            topic_id: TopicRates(round(published / seconds, 3), round(read / seconds, 3))
            for topic_id, (published, _, read, _) in topics.items()
        }
        return self._show(Rates(*(round(count / seconds, 3) for count in (*totals, *settled))))

    def _show(self, rates: Rates) -> Sample:
        number = 0 if self._latest is None else self._latest.number + 1
        sample = self._latest = Sample(
            number,
            self._clock.now_ms(),
            rates,
            self._publish_p99_ms(),
            self._backlog,
            len(self._topics),
            sum(gateway.connections for gateway in self.gateways),
            list(self._busiest()),
        )
        self._history.add(
            sample.time_ms,
            {
                **rates._asdict(),
                "publish_p99_ms": sample.publish_p99_ms,
                "lag_messages": self._backlog.lag_messages,
                "dead_letters": self._backlog.dead_letters,
            },
        )
        news, self._news = self._news, asyncio.Event()
        news.set()
        return sample

    def _busiest(self) -> Iterator[BusyTopic]:
        for topic_id, rates in sorted(self._rates.items(), key=lambda item: sum(item[1]), reverse=True)[:TOP_TOPICS]:
            with contextlib.suppress(TopicNotFound):
                size_bytes = sum(partition.log.size_bytes for partition in self._partitions.of(topic_id))
                yield BusyTopic(self._catalogue.topic_by_id(topic_id).name, rates, size_bytes)

    async def _new_topic_counts(self) -> dict[int, _TopicCounts]:
        """What was added since the last time, by topic, where anything was."""
        counts: dict[int, _TopicCounts] = {}
        changes: dict[int, _TopicCounts] = {}
        pace = Pace()
        for topic_id, partitions in self._partitions.by_topic():
            if pace.is_used_up:
                await pace.turn()
            published = published_bytes = read = read_bytes = 0
            for partition in partitions:
                traffic = partition.traffic
                published += traffic.published_messages
                published_bytes += traffic.published_bytes
                read += traffic.fetched_messages + traffic.received_messages + traffic.browsed_messages
                read_bytes += traffic.fetched_bytes + traffic.received_bytes + traffic.browsed_bytes
            now = counts[topic_id] = published, published_bytes, read, read_bytes
            before = self._topics.get(topic_id, _NOTHING)
            if now != before:
                changes[topic_id] = _difference(now, before)
        self._topics = counts
        return changes

    async def _new_queue_counts(self) -> _QueueCounts:
        """Messages that were delivered, acked, nacked and given up since the last time."""
        counts: dict[tuple[int, int], _QueueCounts] = {}
        changes, pace = _NOTHING, Pace()
        for queue in self._queues.all_partition_queues():
            await pace.turn()
            delivered = acks = nacks = dead = 0
            for counters in queue.counters_by_group.values():
                delivered += counters.delivered
                acks += counters.acks
                nacks += counters.nacks
                dead += counters.dead
            now = counts[queue.place] = delivered, acks, nacks, dead
            before = self._queue_counts.get(queue.place, _NOTHING)
            if now != before:
                changes = _sum(changes, _difference(now, before))
        self._queue_counts = counts
        return changes

    def _publish_p99_ms(self) -> float:
        counts = [
            sum(column) for column in zip(*(each.publish.seconds.counts for each in self.gateways), strict=True)
        ]
        before, self._publishes = self._publishes, counts or self._publishes
        new = [now - then for now, then in zip(self._publishes, before, strict=True)]
        return round(quantile(LATENCY_SECONDS, new, 0.99) * 1000, 3)


def _difference(now: _TopicCounts, before: _TopicCounts) -> _TopicCounts:
    a, b, c, d = (max(0, after - then) for after, then in zip(now, before, strict=True))
    return a, b, c, d


def _sum(one: _QueueCounts, other: _QueueCounts) -> _QueueCounts:
    a, b, c, d = (left + right for left, right in zip(one, other, strict=True))
    return a, b, c, d
