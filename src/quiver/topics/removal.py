"""Removes the files of deleted topics in the background; the topic itself is gone immediately."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from quiver.model.topic import Topic
from quiver.structures.ordered_set import OrderedSet
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_WAITED_FOR_SECONDS = 5.0


class RemovalSubscriber(Protocol):
    async def topic_removed(self, topic: Topic) -> None: ...


class TopicRemovals:
    """The catalogue remembers topics that are being removed, so the next start continues an interrupted removal."""

    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, subscribers: Sequence[RemovalSubscriber]
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._subscribers = subscribers
        self._tasks: OrderedSet[asyncio.Task[None]] = OrderedSet()

    def resume(self) -> None:
        """At start-up: continues what the last stop interrupted."""
        for topic in self._catalogue.deleting():
            self.begin(topic)

    def begin(self, topic: Topic) -> "asyncio.Task[None]":
        """Starts to remove a topic that was deleted in the catalogue. Its partitions are unavailable from now on."""
        self._partitions.withdraw(topic.id)
        task = asyncio.get_running_loop().create_task(self._remove(topic))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finished(self, removal: "asyncio.Task[None]") -> None:
        """Returns when the files are gone, or after a few seconds: thousands of partitions take longer."""
        await asyncio.wait([removal], timeout=_WAITED_FOR_SECONDS)
        if removal.done() and not removal.cancelled():
            removal.result()

    async def stop(self) -> None:
        """What is not finished is left to the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _remove(self, topic: Topic) -> None:
        for subscriber in self._subscribers:
            await subscriber.topic_removed(topic)
        await self._partitions.remove_files(topic.id)
        await self._catalogue.files_removed(topic.id)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("files of a deleted topic are left; the next start removes them: %s", problem)
