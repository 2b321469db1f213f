"""The queues: topics that are created at the first push, with the settings of their options."""

import builtins
import contextlib
from functools import lru_cache
from typing import TYPE_CHECKING

from quiver.gateways.queen.options import NAMESPACE_LABEL, TASK_LABEL, QueueDefinition, topic_settings
from quiver.model.dead_letter import is_dead_letter_topic
from quiver.model.errors import InvalidRequest, TopicExists, TopicNotFound
from quiver.model.names import check_name, is_internal
from quiver.model.topic import Topic

if TYPE_CHECKING:
    from quiver.routing.facade import Facade

QUEUE_MODE = "__QUEUE_MODE__"
"""The group of those that name none: they share one position."""
DEFAULT_PARTITION = "Default"
_DEFAULT_KEY = DEFAULT_PARTITION.encode()
_LONGEST_PARTITION = 512
_DEFINED = QueueDefinition()


class QueenQueues:
    def __init__(self, broker: "Facade") -> None:
        self._broker = broker

    def find(self, name: str) -> Topic | None:
        """None when there is no such queue; InvalidName for what cannot be one."""
        return self.find_checked(checked_queue(name))

    def find_checked(self, name: str) -> Topic | None:
        """The same for a name that was checked."""
        try:
            return self._broker.topic(name)
        except TopicNotFound:
            return None

    def list(self) -> list[Topic]:
        """Without the broker's own topics, and without those of dead letters."""
        topics = self._broker.topics()
        return [topic for topic in topics if not is_internal(topic.name) and not is_dead_letter_topic(topic.name)]

    def chosen(self, namespace: str | None, task: str | None) -> "builtins.list[Topic]":
        """Those of a namespace, of a task, or of both; without either, all."""
        return [
            topic
            for topic in self.list()
            if namespace in (None, topic.config.labels.get(NAMESPACE_LABEL, ""))
            and task in (None, topic.config.labels.get(TASK_LABEL, ""))
        ]

    async def ensure(self, name: str) -> Topic:
        """The queue, created with default options if it does not exist."""
        return self.find(name) or await self._create(name, _DEFINED)

    async def configure(self, name: str, definition: QueueDefinition) -> Topic:
        definition.check()
        topic = self.find(name)
        if topic is None:
            topic = await self._create(name, definition)
        settings = topic_settings(definition, topic.config.labels, self._broker.limits)
        if topic.config.changed(settings) == topic.config:
            return topic
        return await self._broker.alter_topic(name, settings)

    async def _create(self, name: str, definition: QueueDefinition) -> Topic:
        with contextlib.suppress(TopicExists):
            return await self._broker.create_topic(name, topic_settings(definition, {}, self._broker.limits))
        return self._broker.topic(name)


@lru_cache(maxsize=1024)
def checked_queue(name: str) -> str:
    if is_internal(name):
        raise InvalidRequest(problem=f"{name!r}: names of queues do not begin with two underscores")
    return check_name(name, "queue")


def group_name(name: str | None) -> str:
    return check_name(name, "consumer group") if name else QUEUE_MODE


def partition_key(name: str | None) -> bytes:
    """The key of a partition's messages."""
    if not name:
        return _DEFAULT_KEY
    key = name.encode()
    if len(key) > _LONGEST_PARTITION:
        raise InvalidRequest(problem=f"a partition's name has at most {_LONGEST_PARTITION} bytes, not {len(key)}")
    return key


def partition_name(key: bytes | None) -> str:
    return "" if key is None else key.decode(errors="replace")
