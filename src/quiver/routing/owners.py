"""Which worker owns what a call is about."""

from quiver.broker.broker import Broker
from quiver.model.topic import Topic


class Owners:
    def __init__(self, broker: Broker) -> None:
        self._catalogue = broker.metadata.catalogue
        self.placement = broker.settings.placement
        self.worker = self.placement.worker

    def of_partition(self, topic_id: int, partition: int) -> int:
        """The worker of a partition; whether the topic has it, that worker knows. TopicNotFound."""
        return self.of(self._catalogue.topic_by_id(topic_id).name, partition)

    def of(self, topic: str, partition: int) -> int:
        """The same by the name of a topic, whether or not it exists."""
        return self.placement.partition_worker(topic, partition)

    def of_topic(self, topic: Topic) -> list[int]:
        """All workers that own partitions of a topic."""
        count = min(topic.config.partitions, self.placement.worker_count)  # neighbours are on different workers
        return sorted(self.of(topic.name, partition) for partition in range(count))
