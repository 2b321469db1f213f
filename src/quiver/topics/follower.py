"""This process follows the catalogue: it opens its partitions of new topics, and gives up those of deleted ones."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from quiver.model.errors import ShuttingDown
from quiver.model.names import TopicId
from quiver.model.topic import Topic
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.topics.removal import TopicRemovals
from quiver.topics.state import TopicChange

logger = logging.getLogger(__name__)

_AGAIN_SECONDS = 5.0


class ChangeSubscriber(Protocol):
    async def topic_changed(self, topic: Topic) -> None: ...


class TopicFollower:
    """Takes one change after the other, in the order in which they took effect, whoever made them."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        removals: TopicRemovals,
        subscribers: Sequence[ChangeSubscriber],
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._removals = removals
        self._subscribers = subscribers
        self._queue: deque[TopicChange | asyncio.Future[None]] = deque()
        """Changes, and those who wait until all before them are done."""
        self._task: asyncio.Task[None] | None = None
        self._is_open = self._is_closed = False
        self.failed: dict[TopicId, Exception] = {}
        """Topics whose partitions here could not be opened, until they are gone."""
        self._shown_before: dict[TopicId, Topic | None] = {}
        """Of these: as they were when they were last opened; None: never."""

    async def open(self) -> None:
        """Opens the partitions of all topics; follows changes from now on."""
        topics = self._catalogue.stored()
        self._catalogue.on_change = self._changed  # in the same step: no change is missed, and none comes twice
        await self._partitions.open_topics(topics)
        for topic in topics:
            self._catalogue.show(topic)
        self._is_open = True
        self._wake()

    async def caught_up(self) -> None:
        """Returns when everything that has taken effect so far is followed here."""
        if self._is_closed:
            raise ShuttingDown()
        if self._task is not None or self._queue:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._queue.append(future)
            await future

    async def opened(self, topic_id: TopicId) -> None:
        """Returns when this process has opened its partitions of a topic, maybe at the second try; raises why it
        cannot."""
        await self.caught_up()
        if topic_id in self.failed:
            self._follow_again(topic_id)
            await self.caught_up()
        if topic_id in self.failed:
            raise self.failed[topic_id]

    async def stop(self) -> None:
        """Finishes the change that is being followed. The others are left to the next start."""
        self._is_closed = True
        waiting = [each for each in self._queue if isinstance(each, asyncio.Future)]
        self._queue.clear()
        for future in waiting:
            if not future.done():
                future.set_exception(ShuttingDown())
        if self._task is not None:
            await self._task

    def _changed(self, change: TopicChange) -> None:
        if not self._is_closed:
            self._queue.append(change)
            self._wake()

    def _wake(self) -> None:
        if self._task is None and self._queue and self._is_open:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._queue:
            match self._queue.popleft():
                case TopicChange(before, after):
                    await self._follow(before, after)
                case future:
                    if not future.done():
                        future.set_result(None)
        self._task = None

    def _follow_again(self, topic_id: TopicId) -> None:
        """The topic exists, and another process may have been told that it does."""
        topic = next((topic for topic in self._catalogue.stored() if topic.id == topic_id), None)
        if topic is not None and topic_id in self.failed:
            self._changed(TopicChange(self._shown_before.get(topic_id), topic))

    def _is_well(self, topic_id: TopicId) -> None:
        self.failed.pop(topic_id, None)
        self._shown_before.pop(topic_id, None)

    async def _follow(self, before: Topic | None, after: Topic | None) -> None:
        if after is None:
            assert before is not None
            self._is_well(before.id)
            self._removals.begin(before)
            return
        try:
            await self._partitions.open_topic(after)
        except Exception as error:
            logger.error("partitions of topic %s could not be opened: %s", after.name, error)
            self.failed[after.id] = error
            self._shown_before.setdefault(after.id, before)
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._follow_again, after.id)
            return
        self._is_well(after.id)
        if before is None:
            self._catalogue.show(after)
        else:
            await self._partitions.reconfigure(after)
        for subscriber in self._subscribers:
            try:
                await subscriber.topic_changed(after)
            except Exception:
                logger.exception("a change of topic %s was not followed everywhere", after.name)
