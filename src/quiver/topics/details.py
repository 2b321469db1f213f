"""What a topic holds, partition by partition."""

from collections.abc import Sequence
from typing import NamedTuple

from quiver.model.errors import QuiverError
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.system.pace import paced


class PartitionDetails(NamedTuple):
    partition: int
    start_offset: int
    end_offset: int
    """The next offset to be written."""
    message_count: int
    """Messages that are stored, also those of aborted transactions. Compaction and markers leave offsets without
    one, so it may be less than the range of offsets."""
    size_bytes: int
    offline: str | None
    compacted_to: int | None
    """The progress of compaction; None if the topic is not compacted."""


class TopicDetails(NamedTuple):
    topic: Topic
    partitions: list[PartitionDetails]

    @property
    def size_bytes(self) -> int:
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def message_count(self) -> int:
        return sum(partition.message_count for partition in self.partitions)


async def topic_details(topic: Topic, owned: Sequence[tuple[int, Partition]]) -> TopicDetails:
    """What the given partitions of a topic contain, by their numbers."""
    return TopicDetails(topic, [await _details(number, partition) async for number, partition in paced(owned)])


async def _details(number: int, partition: Partition) -> PartitionDetails:
    log = partition.log
    try:
        count = sum(await log.count_by_priority(log.start_offset))
    except QuiverError:  # it is being closed, or cannot be read
        count = partition.committed.high_watermark - log.start_offset
    compacted_to = max(log.start_offset, log.clean_to) if partition.committed.is_compacted else None
    return PartitionDetails(
        number, log.start_offset, partition.committed.high_watermark, count, log.size_bytes, log.failure, compacted_to
    )
