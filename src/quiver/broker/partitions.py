"""The partitions this broker owns."""

import asyncio
import logging

from quiver.model.errors import PartitionNotFound, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.names import TopicId
from quiver.model.topic import Topic, TopicConfig
from quiver.partition.partition import Partition, log_options
from quiver.storage.port import Storage
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

_OPEN_AT_ONCE = 64


def topic_log_prefix(topic_id: int) -> str:
    return f"topics/{topic_id}/"


def partition_log_id(topic_id: int, partition: int) -> str:
    return f"{topic_log_prefix(topic_id)}{partition}"


class Partitions:
    """Opens, finds and closes partitions. Partition n of a topic is at place n of its list."""

    def __init__(self, storage: Storage, *, clock: Clock, limits: Limits) -> None:
        self._storage = storage
        self._clock = clock
        self._limits = limits
        self._by_topic: dict[TopicId, list[Partition]] = {}
        self.epoch = 0

    async def open_topic(self, topic: Topic) -> None:
        """Opens the partitions of a topic that are not open yet."""
        have = self._by_topic.get(topic.id, [])
        gate = asyncio.Semaphore(_OPEN_AT_ONCE)
        numbers = range(len(have), topic.config.partitions)
        opened = await asyncio.gather(*(self._open(topic, number, gate) for number in numbers))
        self._by_topic[topic.id] = [*have, *opened]

    async def open_topics(self, topics: list[Topic]) -> None:
        """Opens every topic, at start-up."""
        gate = asyncio.Semaphore(_OPEN_AT_ONCE)

        async def open_one(topic: Topic) -> None:
            numbers = range(topic.config.partitions)
            self._by_topic[topic.id] = list(
                await asyncio.gather(*(self._open(topic, number, gate) for number in numbers))
            )

        await asyncio.gather(*(open_one(topic) for topic in topics))

    def of(self, topic_id: int) -> list[Partition]:
        return self._by_topic.get(TopicId(topic_id), [])

    def get(self, topic_id: int, partition: int) -> Partition:
        partitions = self._by_topic.get(TopicId(topic_id))
        if partitions is None:
            raise TopicNotFound(f"there is no topic with id {topic_id} (any more); fetch metadata again")
        if not 0 <= partition < len(partitions):
            raise PartitionNotFound(topic=topic_id, count=len(partitions), partition=partition)
        return partitions[partition]

    def all(self) -> list[Partition]:
        return [partition for partitions in self._by_topic.values() for partition in partitions]

    def places(self) -> list[tuple[int, int, Partition]]:
        """All of them, with topic id and number."""
        return [(id, number, found) for id, all in self._by_topic.items() for number, found in enumerate(all)]

    def reconfigure(self, topic: Topic) -> None:
        for partition in self.of(topic.id):
            partition.reconfigure(topic.config, self.limits_for(topic.config))

    async def remove_topic(self, topic: Topic) -> None:
        """Refuses further work, waits for what runs, and removes the files."""
        partitions = self._by_topic.pop(topic.id, [])
        for partition in partitions:
            partition.abandon()
        await asyncio.gather(*(partition.drain() for partition in partitions))
        for log_id in await self._storage.list_logs(topic_log_prefix(topic.id)):
            await self._storage.delete_log(log_id)

    async def unowned_topic_ids(self, known: set[TopicId]) -> set[int]:
        """Topic ids that have files and no topic: left by a damaged catalogue, never removed by Quiver."""
        found = {int(log_id.split("/")[1]) for log_id in await self._storage.list_logs("topics/")}
        return found - known

    async def close(self) -> None:
        results = await asyncio.gather(*(p.close() for p in self.all()), return_exceptions=True)
        for problem in results:
            if problem is not None:
                logger.error("a partition did not close cleanly: %s", problem)

    def limits_for(self, config: TopicConfig) -> Limits:
        """The broker's limits with the topic's own message size."""
        return self._limits.for_messages(config.max_message_bytes)

    async def _open(self, topic: Topic, number: int, gate: asyncio.Semaphore) -> Partition:
        async with gate:
            log = await self._storage.open_log(partition_log_id(topic.id, number), log_options(topic.config))
            partition = Partition(
                f"{topic.name}-{number}",
                log,
                config=topic.config,
                epoch=self.epoch,
                clock=self._clock,
                limits=self.limits_for(topic.config),
            )
            await partition.recover()
            return partition
