"""The catalogue of topics. Pure: events in, state out."""

from typing import NamedTuple

from quiver.model.names import TopicId
from quiver.model.topic import Topic, TopicSize
from quiver.topics.events import Event, FilesLeft, FilesRemoved, IdsGiven, NodeNamed, TopicGone, TopicStored


class TopicChange(NamedTuple):
    """What has become of a topic: new without `before`, gone without `after`."""

    before: Topic | None
    after: Topic | None


class CatalogueState:
    def __init__(self) -> None:
        self.topics: dict[TopicId, Topic] = {}
        self.ids: dict[str, TopicId] = {}
        self.sizes: dict[str, TopicSize] = {}
        self.deleting: dict[TopicId, Topic] = {}
        """Deleted topics whose files may still be there."""
        self.next_topic_id = TopicId(1)
        self.node_id = ""

    def apply(self, event: Event) -> list[TopicChange]:
        """May be called again with the same event."""
        match event:
            case TopicStored(topic):
                return self._store(topic)
            case TopicGone(name):
                return self._remove(name)
            case FilesLeft(topic):
                self.deleting[topic.id] = topic
            case FilesRemoved(topic_id):
                self.deleting.pop(topic_id, None)
            case IdsGiven(upper):
                self.next_topic_id = TopicId(max(self.next_topic_id, upper))
            case NodeNamed(node_id):
                self.node_id = node_id
        return []

    def by_name(self, name: str) -> Topic | None:
        topic_id = self.ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def _store(self, topic: Topic) -> list[TopicChange]:
        before = self.by_name(topic.name)
        # Whoever was left behind may see only the topic that has the name now.
        changes = self._remove(topic.name) if before is not None and before.id != topic.id else []
        self.topics[topic.id] = topic
        self.ids[topic.name] = topic.id
        self.sizes[topic.name] = TopicSize(topic.id, topic.config.partitions)
        return [*changes, TopicChange(None if changes else before, topic)]

    def _remove(self, name: str) -> list[TopicChange]:
        topic_id = self.ids.pop(name, None)
        if topic_id is None:
            return []
        del self.sizes[name]
        return [TopicChange(self.topics.pop(topic_id), None)]
