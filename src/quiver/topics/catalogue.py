"""The catalogue of topics: a view of coordination, in which a change is durable before it takes effect."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from quiver.coordination.port import Change, Delete, Put
from quiver.coordination.view import View
from quiver.model.errors import InvalidSetting, TopicExists, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.names import TopicId, check_name
from quiver.model.topic import Topic, TopicConfig, TopicSize
from quiver.system.clock import Clock
from quiver.system.randomness import Randomness
from quiver.topics.events import NEXT_ID, NODE_ID, PREFIXES, TopicStored, deleted_key, event_of, topic_key
from quiver.topics.replica_counts import ONE_REPLICA, ReplicaCounts
from quiver.topics.state import CatalogueState, TopicChange


class TopicCatalogue:
    """Changes are made one at a time; reads do not wait. Other processes may change topics too."""

    def __init__(
        self,
        view: View,
        *,
        clock: Clock,
        randomness: Randomness,
        defaults: TopicConfig,
        limits: Limits,
        replicas: ReplicaCounts = ONE_REPLICA,
    ) -> None:
        self._view = view
        self._clock = clock
        self._randomness = randomness
        self._defaults = defaults
        self._limits = limits
        self._replicas = replicas
        self._state = CatalogueState()
        self._change = asyncio.Lock()
        self._is_open = False
        self._hidden: set[TopicId] = set()
        """New topics whose partitions here are not open yet: stored, but not available."""
        self.on_change: Callable[[TopicChange], None] | None = None
        """Called with each change, in the step in which it takes effect."""
        for prefix in PREFIXES:
            view.follow(prefix, self._apply)

    async def open(self) -> None:
        """Called when the view is open. Topics that appear from now on are hidden until `show`."""
        self._is_open = True
        if not self._state.node_id:
            node_id = self._randomness.token(8).hex().encode()
            await self._view.commit([self._view.expected(NODE_ID)], [Put(NODE_ID, node_id)])

    def _apply(self, change: Change) -> None:
        event = event_of(change)
        if isinstance(event, TopicStored):
            config = self._replicas.filled(event.topic.config)
            event = TopicStored(msgspec.structs.replace(event.topic, config=config))
        for effect in self._state.apply(event):
            if effect.before is None and effect.after is not None and self._is_open:
                self._hidden.add(effect.after.id)
            elif effect.before is not None and effect.after is None:
                self._hidden.discard(effect.before.id)
            if self.on_change is not None:
                self.on_change(effect)

    @property
    def node_id(self) -> str:
        return self._state.node_id

    def topics(self) -> list[Topic]:
        found = (topic for topic in self._state.topics.values() if topic.id not in self._hidden)
        return sorted(found, key=lambda topic: topic.name)

    def stored(self) -> list[Topic]:
        """Also those that are not available yet."""
        return sorted(self._state.topics.values(), key=lambda topic: topic.name)

    def sizes(self) -> Mapping[str, TopicSize]:
        """Id and partition count by name. The same object changes with the catalogue."""
        if not self._hidden:
            return self._state.sizes
        return {name: size for name, size in self._state.sizes.items() if size.id not in self._hidden}

    def deleting(self) -> list[Topic]:
        return list(self._state.deleting.values())

    def topic(self, name: str) -> Topic:
        topic = self._state.by_name(check_name(name))
        if topic is None or topic.id in self._hidden:
            raise TopicNotFound(topic=name)
        return topic

    def topic_by_id(self, topic_id: int) -> Topic:
        topic = self._state.topics.get(TopicId(topic_id))
        if topic is None or topic.id in self._hidden:
            raise TopicNotFound(
                f"there is no topic with id {topic_id}, or no longer; fetch metadata again", topic=topic_id
            )
        return topic

    async def create(self, name: str, settings: Mapping[str, Any], *, free_id: int = 0) -> Topic:
        """Creates a topic that is not available until `show`. Its id is at least `free_id`: lower ids may be used."""
        config = self._changed(self._defaults, settings)
        key = topic_key(check_name(name))
        async with self._change:
            while self._state.by_name(name) is None:
                topic_id = TopicId(max(self._state.next_topic_id, free_id))
                topic = Topic(id=topic_id, name=name, config=config, created_at_ms=self._clock.now_ms())
                stored = [Put(key, msgspec.json.encode(topic)), Put(NEXT_ID, b"%d" % (topic_id + 1))]
                if await self._view.commit([self._view.expected(key), self._view.expected(NEXT_ID)], stored):
                    return topic
            raise TopicExists(topic=name)

    def show(self, topic: Topic) -> None:
        """The partitions of a new topic are open: it is available from now on."""
        self._hidden.discard(topic.id)

    def altered(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """The topic as `alter` would make it; raises what `alter` would raise."""
        topic = self.topic(name)
        config = self._changed(topic.config, settings)
        if config.partitions < topic.config.partitions:
            problem = f"a topic cannot shrink from {topic.config.partitions} to {config.partitions} partitions"
            raise InvalidSetting(setting="partitions", problem=problem)
        return msgspec.structs.replace(topic, config=config)

    def _changed(self, config: TopicConfig, settings: Mapping[str, Any]) -> TopicConfig:
        changed = config.changed(settings)
        most, asked = self._limits.frame_bytes, changed.max_message_bytes
        if asked is not None and asked > most and settings.get("max_message_bytes") is not None:
            problem = f"{asked} is over the broker's max_frame_bytes of {most}, and a message has to fit into a frame"
            raise InvalidSetting(setting="max_message_bytes", problem=problem)
        self._replicas.check(settings, changed)
        return self._replicas.filled(changed)

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic:
        key = topic_key(name)
        async with self._change:
            while (topic := self.altered(name, settings)) != self.topic(name):
                stored = Put(key, msgspec.json.encode(topic))
                if await self._view.commit([self._view.expected(key)], [stored]):
                    break
            return topic

    async def delete(self, name: str) -> Topic:
        async with self._change:
            while not await self._delete(topic := self.topic(name)):
                pass
            return topic

    async def take_back(self, topic: Topic) -> None:
        """Deletes a topic that was never shown."""
        async with self._change:
            while topic.id in self._state.topics and not await self._delete(topic):
                pass

    async def _delete(self, topic: Topic) -> bool:
        key, left = topic_key(topic.name), Put(deleted_key(topic.id), msgspec.json.encode(topic))
        return await self._view.commit([self._view.expected(key)], [left, Delete(key)])

    async def files_removed(self, topic_id: TopicId) -> None:
        await self._view.commit([], [Delete(deleted_key(topic_id))])
