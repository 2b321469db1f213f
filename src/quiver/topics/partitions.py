"""The partitions this broker owns."""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from quiver.cluster.placement import ALONE
from quiver.model.errors import PartitionNotFound, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.names import LeaderEpoch, StartEpoch, TopicId, TopicPartition, sole_leader_epoch
from quiver.model.topic import Topic, TopicConfig
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.records.header import StampedFrame
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.pace import Pace, bounded_gather, paced

logger = logging.getLogger(__name__)


def topic_directory(topic_id: int) -> str:
    return f"topics/{topic_id}"


def partition_log_id(topic_id: int, partition: int) -> str:
    return f"{topic_directory(topic_id)}/{partition}"


class Owns(Protocol):
    def __call__(self, topic: str, partition: int, /) -> bool:
        """Whether this process owns a partition of a topic, by its name."""


class Partitions:
    """Opens, finds and closes the partitions that this process owns."""

    def __init__(self, storage: Storage, *, clock: Clock, limits: Limits, owns: Owns = ALONE.owns_partition) -> None:
        self._storage = storage
        self._clock = clock
        self._limits = limits
        self._owns = owns
        self._by_topic: dict[TopicId, dict[int, Partition]] = {}
        """By number, in the order of numbers. Empty for a topic of which nothing is owned."""
        self._counts: dict[TopicId, int] = {}
        """How many partitions each topic has, in all processes."""
        self._added: dict[TopicId, dict[int, Partition]] = {}
        """Opened for a growth that is not recorded yet: found by number, so that they are there as soon as it is, and
        in no list."""
        self._withdrawn: dict[TopicId, deque[Partition]] = {}
        """The partitions of deleted topics, until their files are removed."""
        self.start_epoch = StartEpoch(0)
        """The start epoch of this process; set before anything is opened."""
        self.on_sampled: Callable[[TopicPartition, StampedFrame], None] | None = None
        """Called with each frame that has sampled messages; set before anything is opened."""

    async def open_topic(self, topic: Topic) -> None:
        """Opens the partitions of a topic that are not open yet: the catalogue has them."""
        await self.open_added(topic)
        self._note(topic, {**self._by_topic.get(topic.id, {}), **self._added.pop(topic.id, {})})

    async def open_added(self, topic: Topic) -> None:
        """Opens the partitions of a topic that are not open yet. Followed by `open_topic` or `close_added`."""
        have = self._by_topic.get(topic.id, {}).keys() | self._added.get(topic.id, {}).keys()
        missing = [number for number in self._owned_numbers(topic) if number not in have]
        opened = await bounded_gather(self._open, ((topic, number) for number in missing))
        self._added.setdefault(topic.id, {}).update(zip(missing, opened, strict=True))

    async def close_added(self, topic_id: TopicId) -> None:
        """The catalogue could not record them."""
        await bounded_gather(_close, list(self._added.pop(topic_id, {}).values()))

    async def open_topics(self, topics: list[Topic]) -> None:
        """Opens every topic, at start-up."""
        places = [(topic, number) for topic in topics for number in self._owned_numbers(topic)]
        opened = iter(await bounded_gather(self._open, iter(places)))
        for topic in topics:
            self._note(topic, dict(zip(self._owned_numbers(topic), opened, strict=False)))

    def _owned_numbers(self, topic: Topic) -> list[int]:
        return [number for number in range(topic.config.partitions) if self._owns(topic.name, number)]

    def _note(self, topic: Topic, partitions: dict[int, Partition]) -> None:
        self._by_topic[topic.id] = partitions
        self._counts[topic.id] = topic.config.partitions

    def owned(self, topic_id: int) -> list[tuple[int, Partition]]:
        """The partitions of a topic that this process owns, with their numbers. How many the topic has is in the
        catalogue."""
        return list(self._by_topic.get(TopicId(topic_id), {}).items())

    def of(self, topic_id: int) -> list[Partition]:
        return list(self._by_topic.get(TopicId(topic_id), {}).values())

    def get(self, topic_id: int, partition: int) -> Partition:
        """Raises PartitionNotFound also for one that another process owns: whoever asks here has the wrong owner."""
        partitions = self._by_topic.get(TopicId(topic_id))
        if partitions is None:
            raise TopicNotFound(f"there is no topic with id {topic_id}, or no longer; fetch metadata again")
        found = partitions.get(partition)
        if found is None:
            found = self._added.get(TopicId(topic_id), {}).get(partition)
        if found is None:
            raise PartitionNotFound(topic=topic_id, count=self._counts[TopicId(topic_id)], partition=partition)
        return found

    def all(self) -> list[Partition]:
        return [partition for partitions in self._by_topic.values() for partition in partitions.values()]

    def by_topic(self) -> list[tuple[TopicId, list[Partition]]]:
        return [(topic_id, list(partitions.values())) for topic_id, partitions in self._by_topic.items()]

    def places(self) -> list[tuple[int, int, Partition]]:
        """All of them, with topic id and number."""
        return [(id, number, found) for id, owned in self._by_topic.items() for number, found in owned.items()]

    def owned_places(self) -> set[TopicPartition]:
        return {TopicPartition(id, number) for id, owned in self._by_topic.items() for number in owned}

    async def reconfigure(self, topic: Topic) -> None:
        limits = self.limits_for(topic.config)
        async for partition in paced(self.of(topic.id)):
            partition.reconfigure(topic.config, limits)

    def withdraw(self, topic_id: TopicId) -> None:
        """Makes the partitions of a deleted topic unavailable."""
        self._withdrawn[topic_id] = deque(self._by_topic.pop(topic_id, {}).values())
        self._counts.pop(topic_id, None)
        self._added.pop(topic_id, None)

    async def end(self, topic_id: TopicId) -> None:
        """Refuses further work on a topic that was withdrawn, and waits for what runs."""
        partitions = list(self._withdrawn.get(topic_id, ()))
        async for partition in paced(partitions):
            partition.abandon()
        await bounded_gather(Partition.end, partitions)

    async def remove_files(self, topic_id: TopicId) -> None:
        """Removes the files of a topic on which nobody works any more, here or in another process."""
        await self._storage.delete_logs(topic_directory(topic_id))
        await self.let_go(topic_id)

    async def discard(self, topic_id: TopicId) -> None:
        """Closes the logs of a topic on which this process does not work any more; another one removes the files."""
        await self._storage.discard_logs(topic_directory(topic_id))
        await self.let_go(topic_id)

    async def let_go(self, topic_id: TopicId) -> None:
        """Forgets a topic whose logs are closed."""
        partitions = self._withdrawn.get(topic_id, deque())
        pace = Pace()
        while partitions:  # freeing thousands at once would block the loop
            partitions.popleft()
            await pace.turn()
        self._withdrawn.pop(topic_id, None)

    async def unowned_topic_ids(self, known: set[TopicId]) -> set[int]:
        """Topic ids that have files and no topic: left by a damaged catalogue, never removed by Quiver."""
        found = {int(log_id.split("/")[1]) for log_id in await self._storage.list_logs("topics")}
        return found - known

    async def close(self) -> None:
        await bounded_gather(_close, self.all())

    def leader_epoch(self, topic_id: TopicId, number: int) -> LeaderEpoch:
        """The leader epoch in which this process leads a partition."""
        return sole_leader_epoch(self.start_epoch)

    def limits_for(self, config: TopicConfig) -> Limits:
        """The broker's limits with the topic's own message size."""
        return self._limits.for_messages(config.max_message_bytes)

    async def _open(self, place: tuple[Topic, int]) -> Partition:
        topic, number = place
        log = await self._storage.open_log(partition_log_id(topic.id, number), log_options(topic.config))
        partition = Partition(
            f"{topic.name}-{number}",
            log,
            PartitionSettings(topic.config, self.limits_for(topic.config)),
            leader_epoch=self.leader_epoch(topic.id, number),
            clock=self._clock,
        )
        await partition.recover()
        if self.on_sampled is not None:
            partition.on_sampled = partial(self.on_sampled, TopicPartition(topic.id, number))
        return partition


async def _close(partition: Partition) -> None:
    try:
        await partition.close()
    except Exception as problem:
        logger.error("a partition did not close cleanly: %s", problem)
