"""The catalogue of topics, and the ids of producers, on one journal: a change is on disk before it takes effect."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from quiver.model.errors import InvalidSetting, TopicExists, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.names import TopicId, check_name
from quiver.model.topic import Topic, TopicConfig, TopicSize
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.randomness import Randomness
from quiver.topics.events import (
    CODEC,
    Event,
    NodeNamed,
    ProducerEpochGiven,
    ProducerIdsReserved,
    TopicChanged,
    TopicCreated,
    TopicDeleted,
    TopicFilesRemoved,
)
from quiver.topics.state import CatalogueState

LOG_ID = "internal/metadata"
_SNAPSHOT_AFTER_SECONDS = 5.0
_PRODUCER_IDS_BLOCK = 1000
_LAST_EPOCH = 2**31 - 1


class TopicCatalogue:
    """Changes are made one at a time; reads do not wait."""

    def __init__(self, *, clock: Clock, randomness: Randomness, defaults: TopicConfig, limits: Limits) -> None:
        self._clock = clock
        self._randomness = randomness
        self._defaults = defaults
        self._limits = limits
        self._state = CatalogueState()
        self._journaled = JournaledState(
            LOG_ID, self._state, CODEC, clock=clock, snapshot_after_seconds=_SNAPSHOT_AFTER_SECONDS
        )
        self._change = asyncio.Lock()
        self._hidden: set[TopicId] = set()
        """New topics whose partitions are not open yet: in the journal, but not available."""
        self.producer_ids = ProducerIds(self._state, self._journaled)

    async def open(self, storage: Storage, epoch: int) -> None:
        """CorruptData stops the start: without topics nothing else can be read."""
        await self._journaled.open(storage, epoch)
        self.producer_ids.opened()
        if not self._state.node_id:
            await self._journaled.append(NodeNamed(self._randomness.token(8).hex()))

    async def close(self) -> None:
        await self._journaled.close()

    @property
    def node_id(self) -> str:
        return self._state.node_id

    def topics(self) -> list[Topic]:
        found = (topic for topic in self._state.topics.values() if topic.id not in self._hidden)
        return sorted(found, key=lambda topic: topic.name)

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
        check_name(name)
        async with self._change:
            if self._state.by_name(name) is not None:
                raise TopicExists(topic=name)
            topic_id = TopicId(max(self._state.next_topic_id, free_id))
            topic = Topic(id=topic_id, name=name, config=config, created_at_ms=self._clock.now_ms())
            self._hidden.add(topic_id)
            try:
                await self._journaled.append(TopicCreated(topic))
            except BaseException:
                self._hidden.discard(topic_id)
                raise
            return topic

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
        return changed

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic:
        async with self._change:
            topic = self.altered(name, settings)
            if topic != self.topic(name):
                await self._journaled.append(TopicChanged(topic.id, topic.config))
            return topic

    async def delete(self, name: str) -> Topic:
        async with self._change:
            return await self._delete(self.topic(name))

    async def take_back(self, topic: Topic) -> None:
        """Deletes a topic that was never shown."""
        async with self._change:
            await self._delete(topic)

    async def _delete(self, topic: Topic) -> Topic:
        await self._journaled.append(TopicDeleted(topic.id))
        self._hidden.discard(topic.id)
        return topic

    async def files_removed(self, topic_id: TopicId) -> None:
        await self._journaled.append(TopicFilesRemoved(topic_id))

    async def snapshot_if_due(self) -> None:
        await self._journaled.snapshot_if_due()


class ProducerIds:
    """Ids and epochs of producers: none is given out twice, also across restarts.

    Ids are reserved in blocks, so most need no write.
    """

    def __init__(self, state: CatalogueState, journaled: JournaledState[Event]) -> None:
        self._state = state
        self._journaled = journaled
        self._change = asyncio.Lock()
        self._next = 0

    def opened(self) -> None:
        """Called when the journal is open. All ids reserved before may have been given out."""
        self._next = self._state.producer_ids_upper

    async def new(self) -> int:
        """An id that was never given out before."""
        if self._next >= self._state.producer_ids_upper:
            async with self._change:
                if self._next >= self._state.producer_ids_upper:
                    await self._journaled.append(ProducerIdsReserved(self._next + _PRODUCER_IDS_BLOCK))
        self._next += 1
        return self._next - 1

    def was_given(self, producer_id: int, epoch: int) -> bool:
        """Whether a producer without transactions may use an epoch."""
        is_known = 0 <= producer_id < self._next
        return is_known and 0 <= epoch <= self._state.producer_epochs.get(producer_id, 0)

    async def next_epoch(self, producer_id: int, epoch: int) -> tuple[int, int]:
        """The next epoch of a producer; a new id if its epoch was never given out, or is forgotten."""
        async with self._change:
            if self.was_given(producer_id, epoch) and epoch < _LAST_EPOCH:
                if not self.was_given(producer_id, epoch + 1):
                    await self._journaled.append(ProducerEpochGiven(producer_id, epoch + 1))
                return producer_id, epoch + 1
        return await self.new(), 0
