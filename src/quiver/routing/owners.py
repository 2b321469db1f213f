"""Which worker owns what a call is about."""

from quiver.broker.broker import Broker


class Owners:
    def __init__(self, broker: Broker) -> None:
        self._catalogue = broker.metadata.catalogue
        self.placement = broker.settings.placement
        self.worker = self.placement.worker

    def of_partition(self, topic_id: int, partition: int) -> int:
        """The worker of a partition; whether the topic has it, that worker knows. TopicNotFound."""
        return self.placement.partition_worker(self._catalogue.topic_by_id(topic_id).name, partition)
