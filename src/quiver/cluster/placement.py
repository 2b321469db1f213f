"""Which worker owns which unit, when all workers share one machine. Pure.

A unit is a partition with all its logs, or a shard of a journal. Its owner follows from the number of workers alone,
so whoever knows that number knows every owner.
"""

from typing import NamedTuple
from zlib import crc32

from quiver.model.dead_letter import SUFFIX

GROUP_SHARDS = 16
CONTROLLER = 0
"""The worker of everything that there is once: coordination, transactions, schedules, producer ids."""


class Placement(NamedTuple):
    """A worker among `worker_count`."""

    worker: int = 0
    worker_count: int = 1

    def partition_worker(self, topic: str, partition: int) -> int:
        """Partitions of a topic are on neighbouring workers; those of its dead-letter topic on the same ones."""
        if self.worker_count == 1:
            return 0
        return (crc32(topic.removesuffix(SUFFIX).encode()) + partition) % self.worker_count

    def partition_workers(self, topic: str, count: int) -> tuple[int, ...]:
        """The workers of the first `count` partitions."""
        first, workers = self.partition_worker(topic, 0), self.worker_count
        return tuple([(first + number) % workers for number in range(count)])

    def shard_worker(self, shard: int) -> int:
        return shard % self.worker_count

    def group_worker(self, group: str) -> int:
        """The worker that has the members and offsets of a stream group."""
        return self.shard_worker(group_shard(group))

    def owns_partition(self, topic: str, partition: int) -> bool:
        return self.partition_worker(topic, partition) == self.worker

    def owned_shards(self) -> list[int]:
        return [shard for shard in range(GROUP_SHARDS) if self.shard_worker(shard) == self.worker]

    @property
    def is_controller(self) -> bool:
        return self.worker == CONTROLLER

    @property
    def owns_nothing(self) -> bool:
        """It is beyond the workers that own units: gateways call it, and it calls the others."""
        return self.worker >= self.worker_count

    @property
    def is_alone(self) -> bool:
        """This worker owns everything."""
        return self.worker_count == 1


ALONE = Placement()


def group_shard(group: str) -> int:
    """The shard of the journal of stream groups that a group is in."""
    return crc32(group.encode()) % GROUP_SHARDS


def shard_of_id(group_id: int) -> int:
    """Ids of groups are a counter times the number of shards, plus the shard."""
    return group_id % GROUP_SHARDS


def new_group_id(group: str, count: int) -> int:
    """The id of the group that is created as the `count`th."""
    return count * GROUP_SHARDS + group_shard(group)
