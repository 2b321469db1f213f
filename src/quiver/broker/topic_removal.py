"""Removing what a deleted topic leaves behind: it is gone for everybody at once, its files go in the background."""

import asyncio
import logging

from quiver.delays.service import Delays
from quiver.groups.service import GroupService
from quiver.model.topic import Topic
from quiver.queues.service import Queues
from quiver.topics.partitions import Partitions
from quiver.topics.service import MetadataService

logger = logging.getLogger(__name__)

_WAITED_FOR_SECONDS = 5.0


class TopicRemovals:
    """The catalogue remembers topics that are being removed, so the next start goes on with what was interrupted."""

    def __init__(
        self,
        metadata: MetadataService,
        partitions: Partitions,
        queues: Queues,
        delays: Delays,
        groups: GroupService,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._queues = queues
        self._delays = delays
        self._groups = groups
        self._tasks: set[asyncio.Task[None]] = set()

    def resume(self) -> None:
        """At start-up: what the broker before this one did not finish."""
        for topic in self._metadata.deleting():
            self._begin(topic)

    async def remove(self, topic: Topic) -> None:
        """Removes a topic that the catalogue has no more. Returns when its files are gone, or after a few seconds:
        those of thousands of partitions go on in the background."""
        self._partitions.withdraw(topic.id)
        task = self._begin(topic)
        await asyncio.wait([task], timeout=_WAITED_FOR_SECONDS)
        if task.done() and not task.cancelled():
            task.result()

    async def stop(self) -> None:
        """What is not finished is left to the next start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, topic: Topic) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(self._remove(topic))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def _remove(self, topic: Topic) -> None:
        await self._queues.topic_deleted(topic.id)
        await self._delays.forget_topic(topic.id)
        await self._groups.topic_changed(topic.name)
        await self._groups.forget_topic(topic.id)
        await self._partitions.remove_files(topic.id)
        await self._metadata.files_removed(topic.id)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            logger.error("files of a deleted topic are left; the next start removes them: %s", problem)
