"""Parts of partitions that are opened when they are first needed: once, however many callers ask."""

import asyncio
import logging
from collections.abc import Container, Iterable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from quiver.model.errors import PartitionNotFound, QuiverError, ShuttingDown, StorageUnavailable, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.storage.port import Storage
from quiver.system.pace import AT_ONCE, bounded_gather

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Opener(Protocol[T]):
    async def open(self, place: TopicPartition) -> T:
        """Raises TopicNotFound if the topic was deleted meanwhile: then nothing stays open."""
        ...

    def opened(self, place: TopicPartition, value: T) -> None:
        """Called in the step in which others can find it."""
        ...


class LazyRegistry(Generic[T]):
    """One that cannot be opened is listed in `problems`, and tried again at the next call."""

    def __init__(self, opener: Opener[T]) -> None:
        self._opener = opener
        self._known: dict[int, dict[int, T]] = {}
        self._opening: dict[TopicPartition, asyncio.Task[T]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)
        self.problems: dict[TopicPartition, str] = {}
        self._is_closed = False

    def get(self, topic_id: int, partition: int) -> T | None:
        """Returns it if it is open."""
        known = self._known.get(topic_id)
        return None if known is None else known.get(partition)

    def of(self, topic_id: int) -> Mapping[int, T]:
        """Those of a topic that are open, by partition."""
        return self._known.get(topic_id, {})

    def follow(self, topic_id: int) -> Mapping[int, T]:
        """As `of`, and those that are opened later appear in it, until `withdraw` empties it."""
        return self._known.setdefault(topic_id, {})

    def all(self) -> list[T]:
        """Those that are open."""
        return [value for known in self._known.values() for value in known.values()]

    def topic_ids(self) -> list[int]:
        """Of the topics of which some may be open."""
        return list(self._known)

    async def open(self, topic_id: int, partition: int) -> T:
        """Opens it unless it is open. ShuttingDown, TopicNotFound, PartitionNotFound, or what the opener raises."""
        value = self.get(topic_id, partition)
        if value is not None:
            return value
        if self._is_closed:
            raise ShuttingDown()
        place = TopicPartition(topic_id, partition)
        task = self._opening.get(place)
        if task is None:
            task = self._opening[place] = asyncio.get_running_loop().create_task(self._open(place))
            task.add_done_callback(partial(self._opened, place))
        return await asyncio.shield(task)

    def _opened(self, place: TopicPartition, task: "asyncio.Task[T]") -> None:
        self._opening.pop(place, None)
        if not task.cancelled():
            task.exception()  # callers may be gone

    async def open_existing(self, storage: Storage, owned: Container[TopicPartition], suffix: str, what: str) -> None:
        """At start-up: opens those of owned partitions that have a log with this suffix, such as
        `topics/17/0-delivery`."""
        places = [place for log_id in await storage.list_logs("topics") if (place := _place(log_id, suffix))]
        await self.open_all((place for place in places if place in owned), what)

    async def open_all(self, places: Iterable[TopicPartition], what: str) -> None:
        """One that cannot be opened is logged and does not affect the others."""

        async def open_one(place: TopicPartition) -> None:
            try:
                await self.open(*place)
            except (QuiverError, OSError) as error:
                logger.error("the %s of topic id %d, partition %d cannot be opened: %s", what, *place, error)

        await bounded_gather(open_one, places)

    async def withdraw(self, topic_id: int) -> list[T]:
        """Removes those of a topic, and returns them to be closed."""
        opening = [task for place, task in self._opening.items() if place.topic_id == topic_id]
        await asyncio.gather(*opening, return_exceptions=True)
        for place in [place for place in self.problems if place.topic_id == topic_id]:
            del self.problems[place]
        known = self._known.pop(topic_id, {})
        withdrawn = list(known.values())
        known.clear()
        return withdrawn

    async def close(self) -> list[T]:
        """Opens nothing more; returns those that are open, to be closed."""
        self._is_closed = True
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        return self.all()

    async def _open(self, place: TopicPartition) -> T:
        try:
            async with self._gate:
                value = await self._opener.open(place)
        except (TopicNotFound, PartitionNotFound, StorageUnavailable):  # an outage is the storage's problem alone
            raise
        except (QuiverError, OSError) as error:
            self.problems[place] = str(error)
            raise
        self.problems.pop(place, None)
        self._known.setdefault(place.topic_id, {})[place.partition] = value
        self._opener.opened(place, value)
        return value


def _place(log_id: str, suffix: str) -> TopicPartition | None:
    """The partition that a log belongs to; None if it has another suffix."""
    _, topic_id, name = log_id.split("/")
    number = name.removesuffix(suffix)
    return None if number == name else TopicPartition(int(topic_id), int(number))
