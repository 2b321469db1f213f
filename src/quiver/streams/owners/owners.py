"""Whom this process asks about groups and partitions: itself, unless others own some of them."""

from quiver.streams.owners.port import GroupOwners, PartitionOwners, QueueOwners


class StreamOwners:
    def __init__(self, partitions: PartitionOwners, groups: GroupOwners, queues: QueueOwners) -> None:
        self.partitions, self.groups, self.queues = partitions, groups, queues
        self.has_others = False

    def use(self, partitions: PartitionOwners, groups: GroupOwners, queues: QueueOwners) -> None:
        """There are other processes, and these ask whoever is the owner. While the broker is built."""
        self.partitions, self.groups, self.queues = partitions, groups, queues
        self.has_others = True
