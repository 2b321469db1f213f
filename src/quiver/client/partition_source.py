"""One partition that a stream reads: where fetching is, and where processing is. Pure."""

from quiver.client.cursor import Cursor

PartitionKey = tuple[int, int]
"""Topic id and partition."""


class PartitionSource:
    """`position` is the next offset to be processed: what a commit names. `is_gone` once the stream let go of it."""

    __slots__ = ("committed", "cursor", "is_fetching", "is_gone", "is_paused", "position", "topic", "topic_id")

    def __init__(self, topic_id: int, topic: str, partition: int, offset: int) -> None:
        self.topic_id = topic_id
        self.topic = topic
        self.cursor = Cursor(partition, offset)
        self.position = offset
        self.committed = offset
        self.is_fetching = False
        self.is_paused = False
        self.is_gone = False

    @property
    def partition(self) -> int:
        return self.cursor.partition

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.cursor.partition

    def moved_to(self, offset: int) -> "PartitionSource":
        """A source for the same partition from another offset on; what was fetched for this one is void."""
        self.is_gone = True
        return PartitionSource(self.topic_id, self.topic, self.partition, offset)
