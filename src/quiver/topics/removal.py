"""Removes the files of deleted topics in the background; the topic itself is gone immediately."""

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from quiver.model.names import TopicId
from quiver.model.topic import Topic
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.owners import NoOthers, OtherOwners
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_WAITED_FOR_SECONDS = 5.0


class RemovalSubscriber(Protocol):
    async def topic_removed(self, topic: Topic) -> None: ...


class TopicRemovals:
    """The catalogue remembers topics that are being removed, so the next start continues an interrupted removal."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        subscribers: Sequence[RemovalSubscriber],
        *,
        removes_files: bool = True,
    ) -> None:
        """Where several processes own partitions, one of them removes the files, when all have ended."""
        self.others: OtherOwners = NoOthers()
        self._removes_files = removes_files
        self._catalogue = catalogue
        self._partitions = partitions
        self._subscribers = subscribers
        self._tasks: dict[TopicId, asyncio.Task[None]] = {}
        """Those that run, and those that failed."""

    def resume(self) -> None:
        """At start-up: continues what the last stop interrupted, and gives up the logs of topics that were deleted
        while nobody had them open."""
        for topic in self._catalogue.deleting():
            self.begin(topic)

    def begin(self, topic: Topic) -> None:
        """Starts to remove a topic that was deleted in the catalogue. Its partitions are unavailable from now on."""
        self._partitions.withdraw(topic.id)
        task = asyncio.get_running_loop().create_task(self._remove(topic))
        self._tasks[topic.id] = task
        task.add_done_callback(partial(self._ended, topic.id))

    async def ended(self, topic_id: TopicId) -> None:
        """Returns when this process does not work on a deleted topic any more; its follower has caught up with the
        deletion."""
        removal = self._tasks.get(topic_id)
        if removal is not None:
            await asyncio.shield(removal)

    async def finished(self, topic_id: TopicId) -> None:
        """Returns when the files are gone, or after a few seconds: thousands of partitions take longer."""
        removal = self._tasks.get(topic_id)
        if removal is None:
            return
        await asyncio.wait([removal], timeout=_WAITED_FOR_SECONDS)
        if removal.done() and not removal.cancelled():
            removal.result()

    async def stop(self) -> None:
        """What is not finished is left to the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _remove(self, topic: Topic) -> None:
        for subscriber in self._subscribers:
            await subscriber.topic_removed(topic)
        await self._partitions.end(topic.id)
        if not self._removes_files:
            await self._partitions.discard(topic.id)
            return
        await self.others.ended(topic)
        await self._partitions.remove_files(topic.id)
        await self._catalogue.files_removed(topic.id)

    def _ended(self, topic_id: TopicId, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("files of a deleted topic are left; the next start removes them: %s", problem)
        else:
            self._tasks.pop(topic_id, None)
