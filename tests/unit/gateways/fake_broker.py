"""A broker for tests of the HTTP gateway: lists in memory, and errors on demand."""

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from quiver.broker.health import HealthReport
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import PartitionNotFound, QuiverError, TopicExists, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.message import NewMessage, StoredMessage
from quiver.model.names import check_name
from quiver.model.topic import Topic, TopicConfig

NOW_MS = 1_800_000_000_000


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return NOW_MS + int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class Published(NamedTuple):
    partition: int
    offset: int
    duplicate: bool = False
    delayed: bool = False
    buffered: bool = False


class Begun(NamedTuple):
    future: "asyncio.Future[list[Published | QuiverError]]"

    def outcome(self) -> Published | QuiverError:
        [outcome] = self.future.result()
        return outcome


class Page(NamedTuple):
    messages: list[StoredMessage]
    next_offset: int
    expired_count: int = 0


class FakeBroker:
    """What HttpGateway calls of a Broker; `refuse` makes every publish of a message fail with that error.

    With a `gate`, publishes set `waiting` and wait until it opens.
    """

    node_id = "node-1"

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.clock = FakeClock()
        self.refuse: QuiverError | None = None
        self.broken: Exception | None = None
        self.gate: asyncio.Event | None = None
        self.waiting = asyncio.Event()
        self.trouble: dict[str, str] = {}
        self.published: list[NewMessage] = []
        self._topics: dict[str, Topic] = {}
        self._logs: dict[str, list[list[StoredMessage]]] = {}

    def add_topic(self, name: str, partitions: int = 1) -> None:
        config = TopicConfig(partitions=partitions)
        self._topics[name] = Topic(id=len(self._topics) + 1, name=name, config=config, created_at_ms=NOW_MS)
        self._logs[name] = [[] for _ in range(partitions)]

    async def create_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        if check_name(name) in self._topics:
            raise TopicExists(topic=name)
        config = TopicConfig().changed(settings)
        self.add_topic(name, config.partitions)
        self._topics[name] = Topic(id=1, name=name, config=config, created_at_ms=NOW_MS)
        return self._topics[name]

    async def alter_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        topic = self.topic(name)
        config = topic.config.changed(settings)
        self._topics[name] = Topic(id=topic.id, name=name, config=config, created_at_ms=NOW_MS)
        self._logs[name] += [[] for _ in range(config.partitions - topic.config.partitions)]
        return self._topics[name]

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        old = self.topic(name).config.partitions
        await self.alter_topic(name, {"partitions": count})
        return old, count

    async def delete_topic(self, name: str) -> None:
        del self._logs[self.topic(name).name], self._topics[name]

    async def purge_topic(self, name: str) -> None:
        self._logs[self.topic(name).name] = [[] for _ in self._logs[name]]

    def topics(self) -> list[Topic]:
        return list(self._topics.values())

    def topic(self, name: str) -> Topic:
        if name not in self._topics:
            raise TopicNotFound(topic=name)
        return self._topics[name]

    async def describe(self, name: str) -> Any:
        return self._describe(name)

    def _describe(self, name: str) -> Any:
        partitions = [
            SimpleNamespace(
                partition=n,
                start_offset=0,
                end_offset=len(log),
                size_bytes=100 * len(log),
                offline=None,
                compacted_to=None,
            )
            for n, log in enumerate(self._logs[self.topic(name).name])
        ]
        return SimpleNamespace(
            topic=self.topic(name),
            partitions=partitions,
            size_bytes=sum(p.size_bytes for p in partitions),
            message_count=sum(p.end_offset for p in partitions),
        )

    def begin_publish(self, topic: str, message: NewMessage) -> "Begun":
        self.topic(topic)
        return Begun(asyncio.ensure_future(self.publish(topic, [message])))

    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        if self.broken is not None:
            raise self.broken
        if self.gate is not None:
            self.waiting.set()
            await self.gate.wait()
        logs = self._logs[self.topic(topic).name]
        return [self._store(topic, logs, message) for message in messages]

    def _store(self, topic: str, logs: list[list[StoredMessage]], message: NewMessage) -> Published | QuiverError:
        number = message.partition or 0
        if self.refuse is not None:
            return self.refuse
        if not 0 <= number < len(logs):
            return PartitionNotFound(topic=topic, count=len(logs), partition=number)
        self.published.append(message)
        stored = StoredMessage(
            partition=number,
            offset=len(logs[number]),
            timestamp_ms=NOW_MS if message.timestamp_ms is None else message.timestamp_ms,
            append_time_ms=NOW_MS,
            key=message.key,
            value=message.value,
            headers=message.headers or {},
            priority=message.priority,
        )
        logs[number].append(stored)
        return Published(number, stored.offset, delayed=message.deliver_at_ms is not None)

    async def read_messages(self, topic: str, partition: int, request: BrowseRequest) -> Page:
        logs = self._logs[self.topic(topic).name]
        if partition >= len(logs):
            raise PartitionNotFound(topic=topic, count=len(logs), partition=partition)
        start = request.offset or 0
        found = logs[partition][start : start + request.limit]
        if request.hold is not None:
            request.hold(sum(len(message.value or b"") for message in found))
        return Page(found, start + len(found))

    @property
    def node(self) -> Any:
        return self

    async def health(self) -> Any:
        return HealthReport(self.trouble, {})

    async def stats(self) -> Any:
        topics = [self._describe(name) for name in self._topics]
        return SimpleNamespace(
            uptime_seconds=self.clock.seconds, topics=topics, size_bytes=sum(t.size_bytes for t in topics)
        )
