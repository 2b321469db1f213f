"""Changes of topics, one at a time: create, alter, delete and purge. Subscribers are told of each."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from quiver.model.errors import CorruptData, ShuttingDown, TopicExists, TopicNotFound
from quiver.model.names import TopicId
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.system.pace import ToTheEnd, bounded_gather
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.follower import TopicFollower
from quiver.topics.owners import OtherOwners
from quiver.topics.partitions import Partitions
from quiver.topics.removal import TopicRemovals

logger = logging.getLogger(__name__)
T = TypeVar("T")


class TopicSubscriber(Protocol):
    """Keeps something for each topic, and is told when one changes."""

    async def topic_changed(self, topic: Topic) -> None:
        """The topic is new, has more partitions or has other settings. Its partitions are open."""

    async def topic_purged(self, topic: Topic) -> None:
        """Every message was removed; new ones get the following offsets."""

    async def topic_removed(self, topic: Topic) -> None:
        """The topic is no longer available; its files are removed next."""


class TopicAdmin:
    """Subscribers are told of changes in the order in which these are made, and in the order of `subscribe`."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        *,
        auto_create: bool = False,
        is_controller: bool = True,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._auto_create = auto_create
        self._subscribers: list[TopicSubscriber] = []
        self._removals = TopicRemovals(catalogue, partitions, self._subscribers, removes_files=is_controller)
        self.follower = TopicFollower(catalogue, partitions, self._removals, self._subscribers)
        self._change = asyncio.Lock()
        self._to_the_end = ToTheEnd()
        self._unowned: set[int] = set()
        """Topic ids that have files and no entry in the catalogue."""
        self._unopened: list[Topic] = []
        """New topics that could not be opened, nor deleted again: the disk was full. Nobody sees them."""
        self._not_everywhere: dict[str, Topic] = {}
        """New topics that one of several processes could not open, by name."""
        self._is_running = False

    def share_with(self, others: OtherOwners) -> None:
        """Other processes own partitions too. Called while the broker is built."""
        self._removals.others = others

    def subscribe(self, *subscribers: TopicSubscriber) -> None:
        """Called while the broker is built."""
        self._subscribers += subscribers

    async def open(self) -> None:
        """Opens the partitions of every topic. Changes are possible from now on."""
        known = {topic.id for topic in (*self._catalogue.stored(), *self._catalogue.deleting())}
        self._unowned = await self._partitions.unowned_topic_ids(known)
        for topic_id in self._unowned:
            logger.error("the files of topic id %d belong to no topic and are kept; restore the metadata", topic_id)
        await self.follower.open()
        self._is_running = True

    def resume_removals(self) -> None:
        """Continues removals that the last stop interrupted. Called after every subscriber has started."""
        self._removals.resume()

    async def stop(self) -> None:
        """Refuses changes and finishes the one that runs. What is not removed yet is left to the next start."""
        self._is_running = False
        async with self._change:
            pass
        await self.follower.stop()
        await self._removals.stop()

    @property
    def problem(self) -> CorruptData | None:
        """Files without a topic: the catalogue has lost something."""
        if not self._unowned:
            return None
        return CorruptData(
            f"topic ids {sorted(self._unowned)} have files but no entry; restore the metadata", where="catalogue"
        )

    async def create(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Returns when messages can be published to the topic. Where several processes own partitions, a topic stays
        although one of them could not open its own, and has raised why: that one goes on trying."""
        return await self._run(self._create(name, settings))

    async def ensure(self, name: str) -> None:
        """Creates the topic of a publish if it does not exist and the settings allow it."""
        if not self._auto_create:
            return
        try:
            self._catalogue.topic(name)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                await self.create(name, {})

    async def alter(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Changes settings while the topic is in use; `partitions` may only grow."""
        _, topic = await self._run(self._alter(name, settings))
        return topic

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        """Returns the old and the new number of partitions."""
        before, after = await self._run(self._alter(name, {"partitions": count}))
        return before.config.partitions, after.config.partitions

    async def delete(self, name: str) -> None:
        """Returns when the topic is gone for everybody, and its files too unless there are very many."""
        await self._removals.finished(await self._run(self._delete(name)))

    async def prepare(self, topic: Topic) -> None:
        """Opens the partitions of a topic as it is going to be. They count when the view shows them."""
        await self._partitions.open_added(topic)

    async def take_back_prepared(self, topic_id: int) -> None:
        """Closes what `prepare` has opened: the topic does not get it."""
        await self._partitions.close_added(TopicId(topic_id))

    async def opened(self, topic_id: int) -> None:
        """Returns when this process has opened its partitions of a topic in its view; raises why it cannot."""
        await self.follower.opened(TopicId(topic_id))

    async def ended(self, topic_id: int) -> None:
        """Returns when this process does not work any more on a topic whose deletion its view shows."""
        await self.follower.caught_up()
        await self._removals.ended(TopicId(topic_id))

    async def purge(self, name: str) -> None:
        """Removes all messages; new ones get the following offsets."""
        await self._run(self._purge(name))

    async def _create(self, name: str, settings: Mapping[str, Any]) -> Topic:
        await self._delete_unopened()
        await self._open_everywhere(name)
        free_id = max(self._unowned, default=0) + 1
        topic = await self._catalogue.create(name, settings, free_id=free_id)
        try:
            await self._opened(topic)
        except BaseException as error:
            if self._removals.others.exist:  # they may have messages in it already
                logger.warning("topic %s is there, but not everywhere yet: %s", topic.name, error)
                self._not_everywhere[topic.name] = topic
            else:
                await self._take_back(topic)
            raise
        return topic

    async def _opened(self, topic: Topic) -> None:
        await self.follower.opened(topic.id)
        await self._removals.others.opened(topic)

    async def _open_everywhere(self, name: str) -> None:
        """Before somebody is told that it exists."""
        topic = self._not_everywhere.get(name)
        if topic is not None:
            if any(topic.id == stored.id for stored in self._catalogue.stored()):
                await self._opened(topic)
            self._not_everywhere.pop(name, None)

    async def _alter(self, name: str, settings: Mapping[str, Any]) -> tuple[Topic, Topic]:
        """Returns the topic before and after."""
        await self._delete_unopened()
        before = self._catalogue.topic(name)
        # New partitions are open before the catalogue has them, and nobody may write to them before it does.
        altered = self._catalogue.altered(name, settings)
        await self.prepare(altered)
        try:
            await self._removals.others.prepare(altered)
            topic = await self._catalogue.alter(name, settings)
        except BaseException:
            await self.take_back_prepared(before.id)
            await self._removals.others.take_back(before)
            raise
        await self.follower.caught_up()
        await self._removals.others.opened(topic)
        return before, topic

    async def _delete(self, name: str) -> TopicId:
        await self._delete_unopened()
        topic = await self._catalogue.delete(name)
        await self.follower.caught_up()
        return topic.id

    async def _purge(self, name: str) -> None:
        """The catalogue is not changed, so a full disk does not refuse it: it gives room."""
        topic = self._catalogue.topic(name)
        await bounded_gather(Partition.purge, self._partitions.of(topic.id))
        for subscriber in self._subscribers:
            await subscriber.topic_purged(topic)

    async def _take_back(self, topic: Topic) -> None:
        """The partitions of a new topic could not be opened: it must not exist without them."""
        self._unopened.append(topic)
        try:
            await self._delete_unopened()
        except Exception as error:
            logger.warning("topic %s could not be opened, and will be deleted: %s", topic.name, error)

    async def _delete_unopened(self) -> None:
        """Before every change of the catalogue: otherwise its name would be neither free nor in use."""
        while self._unopened:
            await self._catalogue.take_back(self._unopened[0])
            self._unopened.pop(0)

    async def _run(self, change: Coroutine[Any, Any, T]) -> T:
        """Runs a change to its end, even when the caller stops waiting: no topic may stay half changed."""
        return await self._to_the_end.run(self._run_alone(change))

    async def _run_alone(self, change: Coroutine[Any, Any, T]) -> T:
        async with self._change:
            try:
                self._check_running()
                return await change
            finally:
                change.close()

    def _check_running(self) -> None:
        if not self._is_running:
            raise ShuttingDown()
