"""The settings that hold for a group in a topic: its own where it has some, otherwise the topic's."""

from quiver.groups.service import Groups
from quiver.model.errors import TopicNotFound
from quiver.model.queue import QueueSettings
from quiver.topics.catalogue import TopicCatalogue


class EffectiveSettings:
    def __init__(self, catalogue: TopicCatalogue, groups: Groups) -> None:
        self._catalogue = catalogue
        self._groups = groups

    def of(self, topic_id: int, group_id: int) -> QueueSettings:
        """A topic or group that is gone has the defaults."""
        try:
            defaults = self._catalogue.topic_by_id(topic_id).config.queue
        except TopicNotFound:
            defaults = QueueSettings()
        name = self._groups.name_of(group_id)
        return defaults if name is None else self._groups.group(name).settings.for_topic(defaults)
