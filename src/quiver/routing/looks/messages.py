"""Lives of messages, and traces: the owner of a partition knows them."""

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.model.topic import Topic
from quiver.model.trace.life import MessageLife
from quiver.model.trace.span import Trace, TraceFilter, TraceStats
from quiver.routing.looks.requests import FlushTraces, GetLife, GetTrace, SearchTraces
from quiver.routing.messages.service import RoutedMessages
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter
from quiver.routing.topics.service import RoutedTopics
from quiver.traces.collector import TRACES_TOPIC, SpanTarget
from quiver.traces.span_frames import SpanFrame
from quiver.traces.store import check_trace_id, partition_of_trace


class RoutedLives:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers

    async def of(self, topic_name: str, number: int, offset: int) -> MessageLife:
        """Where a message was moved to by another worker's partition is known there."""
        worker = self._owners.placement.partition_worker(self._local.topic(topic_name).name, number)
        if worker == self._owners.worker:
            return await self._local.life.of(topic_name, number, offset)
        return (await self._peers.call(worker, GetLife(topic_name, number, offset))).value


class RoutedTraces:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, scatter: Scatter) -> None:
        self._local, self._owners, self._peers, self._scatter = local, owners, peers, scatter

    async def get(self, trace_id: str) -> Trace:
        wanted = check_trace_id(trace_id)
        await self._flush()
        topic = next((topic for topic in self._local.topics() if topic.name == TRACES_TOPIC), None)
        worker = self._owners.worker
        if topic is not None:
            number = partition_of_trace(wanted, topic.config.partitions)
            worker = self._owners.placement.partition_worker(TRACES_TOPIC, number)
        if worker == self._owners.worker:
            return await self._local.traces.get(wanted)
        return (await self._peers.call(worker, GetTrace(wanted))).value

    async def search(self, wanted: TraceFilter, limit: int) -> list[Trace]:
        """All spans of a trace are in one partition, so nothing is put together but the list."""
        await self._flush()
        look = await self._scatter.look(SearchTraces(wanted, limit), lambda: self._local.traces.search(wanted, limit))
        found = [trace for answer in look.values() for trace in answer]
        return sorted(found, key=lambda trace: trace.start_ms, reverse=True)[:limit]

    async def stats(self) -> TraceStats:
        return await self._local.traces.stats()

    async def _flush(self) -> None:
        await self._scatter.look(FlushTraces(), self._local.traces.flush)


class RoutedSpans:
    """The topic of traces, whose partitions have several owners."""

    def __init__(self, own: SpanTarget, topics: RoutedTopics, messages: RoutedMessages, owners: Owners) -> None:
        self._own, self._messages, self._owners = own, messages, owners
        self.create = topics.create

    async def append(self, topic: Topic, frame: SpanFrame) -> None:
        if self._owners.of_partition(topic.id, frame.partition) == self._owners.worker:
            await self._own.append(topic, frame)  # also while the broker stops
        else:
            await self._messages.produce(topic.id, frame.partition, frame.frame)
