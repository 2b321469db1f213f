"""The catalogue of topics. Pure: events in, state out."""

from collections.abc import Iterator

import msgspec

from quiver.model.limits import PRODUCER_EPOCHS_REMEMBERED
from quiver.model.names import TopicId
from quiver.model.topic import Topic, TopicSize
from quiver.topics.events import (
    Event,
    NodeNamed,
    ProducerEpochGiven,
    ProducerIdsReserved,
    TopicChanged,
    TopicCreated,
    TopicDeleted,
    TopicFilesRemoved,
)


class _Snapshot(msgspec.Struct):
    """What a snapshot holds."""

    topics: list[Topic]
    deleting: dict[TopicId, Topic]
    next_topic_id: int
    producer_ids_upper: int
    node_id: str
    producer_epochs: dict[int, int] = {}


class CatalogueState:
    def __init__(self) -> None:
        self.topics: dict[TopicId, Topic] = {}
        self.ids: dict[str, TopicId] = {}
        self.sizes: dict[str, TopicSize] = {}
        self.deleting: dict[TopicId, Topic] = {}
        """Deleted topics whose files may still be there."""
        self.next_topic_id = TopicId(1)
        self.producer_ids_upper = 1
        self.producer_epochs: dict[int, int] = {}
        """The last epoch given to each producer without transactions, if it is not 0; the most recent is last."""
        self.node_id = ""

    def apply(self, event: Event) -> None:
        match event:
            case TopicCreated(topic):
                self.topics[topic.id] = topic
                self.ids[topic.name] = topic.id
                self._note_size(topic)
                self.next_topic_id = TopicId(max(self.next_topic_id, topic.id + 1))
            case TopicChanged(topic_id, config):
                self.topics[topic_id] = msgspec.structs.replace(self.topics[topic_id], config=config)
                self._note_size(self.topics[topic_id])
            case TopicDeleted(topic_id):
                topic = self.topics.pop(topic_id)
                del self.ids[topic.name], self.sizes[topic.name]
                self.deleting[topic_id] = topic
            case TopicFilesRemoved(topic_id):
                self.deleting.pop(topic_id, None)
            case ProducerIdsReserved(upper):
                self.producer_ids_upper = max(self.producer_ids_upper, upper)
            case ProducerEpochGiven(producer_id, epoch):
                self.producer_epochs.pop(producer_id, None)
                self.producer_epochs[producer_id] = epoch
                while len(self.producer_epochs) > PRODUCER_EPOCHS_REMEMBERED:
                    del self.producer_epochs[next(iter(self.producer_epochs))]
            case NodeNamed(node_id):
                self.node_id = node_id

    def by_name(self, name: str) -> Topic | None:
        topic_id = self.ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def _note_size(self, topic: Topic) -> None:
        self.sizes[topic.name] = TopicSize(topic.id, topic.config.partitions)

    def snapshot(self) -> Iterator[bytes]:
        topics = list(self.topics.values())
        yield msgspec.json.encode(
            _Snapshot(
                topics,
                self.deleting,
                self.next_topic_id,
                self.producer_ids_upper,
                self.node_id,
                self.producer_epochs,
            )
        )

    def restore(self, data: bytes) -> None:
        stored = msgspec.json.decode(data, type=_Snapshot)
        self.topics = {topic.id: topic for topic in stored.topics}
        self.ids = {topic.name: topic.id for topic in stored.topics}
        self.sizes = {}
        for topic in stored.topics:
            self._note_size(topic)
        self.deleting = stored.deleting
        self.next_topic_id = TopicId(stored.next_topic_id)
        self.producer_ids_upper = stored.producer_ids_upper
        self.node_id = stored.node_id
        self.producer_epochs = stored.producer_epochs
