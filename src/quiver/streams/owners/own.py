"""What this process answers for the partitions and groups that it owns itself."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from quiver.groups.service import Groups
from quiver.messages.append_time import append_time_ms
from quiver.messages.position_offset import position_offset
from quiver.model.errors import PartitionNotFound, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Queues
from quiver.streams.owners.port import (
    Claim,
    Commit,
    KnownCommits,
    NewsWatch,
    PartitionFacts,
    PartToTake,
    PolledPartition,
    TakenMessages,
)
from quiver.streams.poll.takes import Takes
from quiver.streams.poll.watch import OwnWatch
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

if TYPE_CHECKING:
    from quiver.streams.service import Streams


class OwnPartitions:
    def __init__(self, groups: Groups, catalogue: TopicCatalogue, partitions: Partitions, queues: Queues) -> None:
        self._partitions = partitions
        self._queues = queues
        self._takes = Takes(groups, catalogue, partitions, queues)

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {place: partition.committed.high_watermark for place, partition in self._found(partitions)}

    async def facts(
        self, group_id: int, commits: Mapping[TopicPartition, Commit | None], *, with_age: bool = False
    ) -> dict[TopicPartition, PartitionFacts]:
        found: dict[TopicPartition, PartitionFacts] = {}
        async for place, partition in paced(list(self._found(commits))):
            facts = self._facts(group_id, place, partition, commits[place])
            found[place] = await _with_age(partition, facts, commits[place]) if with_age else facts
        return found

    async def find(self, partitions: Collection[TopicPartition], position: Position) -> dict[TopicPartition, int]:
        return {
            place: await position_offset(partition, position)
            async for place, partition in paced(list(self._found(partitions)))
        }

    async def follow(self, group_id: int, commits: Mapping[TopicPartition, Commit]) -> None:
        for place, commit in commits.items():
            queue = self._queue(place)
            if queue is not None:
                self._queues.follow(queue, group_id, commit.offset, commit.version)

    async def take(
        self, claim: Claim, parts: Sequence[PartToTake], *, limit: int, max_bytes: int, taken: TakenMessages
    ) -> None:
        await self._takes.take(claim, parts, limit=limit, max_bytes=max_bytes, taken=taken)

    async def give_back(self, polled: Sequence[PolledPartition]) -> None:
        await self._queues.give_back([received for part in polled for received in part.received])

    def watch(self, group_id: int, partitions: Collection[TopicPartition]) -> NewsWatch:
        return OwnWatch(self._queues, group_id, dict(self._found(partitions)))

    def _facts(
        self, group_id: int, place: TopicPartition, partition: Partition, commit: Commit | None
    ) -> PartitionFacts:
        settled, queue = None, self._queue(place)
        if commit is not None and queue is not None:
            self._queues.follow(queue, group_id, commit.offset, commit.version)
            if queue.version(group_id) == commit.version:
                settled = queue.settled_offset(group_id)
        committed = partition.committed
        return PartitionFacts(
            partition.log.start_offset,
            committed.high_watermark,
            committed.last_stable,
            committed.visible_end,
            settled,
        )

    def _queue(self, place: TopicPartition) -> PartitionQueue | None:
        """If it is open."""
        return self._queues.partition_queues(place.topic_id).get(place.partition)

    def _found(self, partitions: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, Partition]]:
        for place in partitions:
            try:
                yield place, self._partitions.get(*place)
            except (TopicNotFound, PartitionNotFound):
                continue


async def _with_age(partition: Partition, facts: PartitionFacts, commit: Commit | None) -> PartitionFacts:
    offset = max(facts.start, 0 if commit is None else commit.offset, facts.settled or 0)
    if offset >= facts.visible_end:
        return facts
    return facts._replace(oldest_ms=await append_time_ms(partition, offset))


class OwnQueues:
    def __init__(self, queues: Queues) -> None:
        self._queues = queues

    async def check_idle(self, group: str) -> None:
        self._queues.check_idle(group)

    async def settled_offsets(self, topic: Topic, group: str) -> dict[int, int]:
        return self._queues.settled_offsets(topic, group)

    async def rewind(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        await self._queues.rewind(topic, group, offsets)

    async def group_deleted(self, group_id: int) -> None:
        await self._queues.group_deleted(group_id)


class OwnGroups:
    def __init__(self, streams: "Streams") -> None:
        self._streams = streams

    async def commits(self, partitions: Collection[TopicPartition]) -> KnownCommits:
        return KnownCommits(await self._streams.positions.commits(partitions))

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        return await self._streams.committed(group)
