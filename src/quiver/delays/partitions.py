"""The delays of partitions: opened when they are first needed, and at start-up where there are any."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from quiver.delays.partition.partition_delays import (
    SCHEDULE_SUFFIX,
    DelayContext,
    PartitionDelays,
    schedule_config,
    schedule_settings,
)
from quiver.model.errors import QuiverError, ShuttingDown
from quiver.model.names import TopicPartition
from quiver.model.topic import Topic
from quiver.partition.lazy_registry import LazyRegistry
from quiver.storage.port import Storage
from quiver.system.pace import bounded_gather, paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _WaitingCall(Generic[T]):
    """A call that waits until the delays of its partition are open, and the future for its caller."""

    def __init__(self, call: "Callable[[PartitionDelays], asyncio.Future[T]]") -> None:
        self._call = call
        self.result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def begin(self, delays: PartitionDelays) -> None:
        try:
            self._call(delays).add_done_callback(self._ended)
        except QuiverError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # the caller may have gone

    def _ended(self, done: "asyncio.Future[T]") -> None:
        error = done.exception()
        if error is not None:
            self.fail(error)
        elif not self.result.done():
            self.result.set_result(done.result())


class DelayOpener:
    def __init__(
        self, storage: Storage, catalogue: TopicCatalogue, partitions: Partitions, context: DelayContext
    ) -> None:
        self._storage = storage
        self._catalogue = catalogue
        self._partitions = partitions
        self._context = context
        self.waiting: dict[TopicPartition, list[_WaitingCall[Any]]] = {}
        """In the order of arrival."""

    async def open(self, place: TopicPartition) -> PartitionDelays:
        config = self._catalogue.topic_by_id(place.topic_id).config
        settings = schedule_settings(config, self._partitions.limits_for(config))
        target = self._partitions.get(*place)
        return await PartitionDelays.open(self._storage, place, target, settings, self._context)

    def opened(self, place: TopicPartition, delays: PartitionDelays) -> None:
        for call in self.waiting.pop(place, ()):
            call.begin(delays)
        self._context.due_clock.add(place, delays)


class DelayPartitions:
    def __init__(
        self, storage: Storage, catalogue: TopicCatalogue, partitions: Partitions, context: DelayContext
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._context = context
        self._opener = DelayOpener(storage, catalogue, partitions, context)
        self._registry: LazyRegistry[PartitionDelays] = LazyRegistry(self._opener)
        self._openings: set[asyncio.Task[None]] = set()

    @property
    def problems(self) -> dict[TopicPartition, str]:
        """Why delays could not be opened."""
        return self._registry.problems

    async def open_existing(self) -> None:
        """Opens those that have a schedule log."""
        owned = self._partitions.owned_places()
        await self._registry.open_existing(self._storage, owned, SCHEDULE_SUFFIX, "delays")

    def get(self, topic_id: int, partition: int) -> PartitionDelays | None:
        """If they are open."""
        return self._registry.get(topic_id, partition)

    def all(self) -> list[PartitionDelays]:
        """Those that are open."""
        return self._registry.all()

    def of(self, topic_id: int) -> list[PartitionDelays]:
        """Those of a topic that are open, in the order of the partitions."""
        return [delays for _, delays in sorted(self._registry.of(topic_id).items())]

    def pending_count(self, topic_id: int) -> int:
        """How many messages of a topic wait."""
        opened = self._registry.of(topic_id)
        return sum([len(delays.state.pending) for delays in opened.values()]) if opened else 0

    def when_open(
        self, topic: Topic, partition: int, call: "Callable[[PartitionDelays], asyncio.Future[T]]"
    ) -> "asyncio.Future[T]":
        """The result of `call`, now or as soon as the delays are open. Calls are made in the order of arrival."""
        delays = self._registry.get(topic.id, partition)
        if delays is not None:
            return call(delays)
        waiting, place = _WaitingCall(call), TopicPartition(topic.id, partition)
        if place not in self._opener.waiting:
            self._opener.waiting[place] = []
            task = asyncio.get_running_loop().create_task(self._open(place))
            self._openings.add(task)
            task.add_done_callback(self._openings.discard)
        self._opener.waiting[place].append(waiting)
        return waiting.result

    async def _open(self, place: TopicPartition) -> None:
        try:
            await self._registry.open(*place)
        except BaseException as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            for call in self._opener.waiting.pop(place, ()):
                call.fail(ShuttingDown() if is_cancelled else error)
            if not isinstance(error, Exception):
                raise

    async def reconfigure(self, topic: Topic) -> None:
        limits, config = self._partitions.limits_for(topic.config), schedule_config(topic.config)
        async for delays in paced(self.of(topic.id)):
            delays.schedule.reconfigure(config, limits)

    async def remove_topic(self, topic_id: int) -> None:
        """Ends all work on a topic, whose files are about to be removed."""
        removed = await self._registry.withdraw(topic_id)
        for delays in removed:
            self._context.due_clock.remove(delays.place)
        await bounded_gather(PartitionDelays.abandon, removed)

    async def close(self) -> None:
        await bounded_gather(_close, await self._registry.close())


async def _close(delays: PartitionDelays) -> None:
    try:
        await delays.close()
    except Exception as problem:
        logger.error("%s did not close cleanly: %s", delays.schedule.name, problem)
