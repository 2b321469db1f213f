"""A live tail: what is committed from now on, at most so many messages per second. It never falls behind.

Nothing is buffered. Whoever asks for more looks at what has come since, and what is too much is left out and counted:
a client that stops reading costs nothing but its connection.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import NamedTuple

from quiver.model.errors import Overloaded, PartitionNotFound, ShuttingDown, TopicNotFound
from quiver.model.message import StoredMessage
from quiver.model.topic import Topic
from quiver.partition.committed_view import CommittedView
from quiver.partition.partition import Partition
from quiver.search.language.expression import Expression
from quiver.search.partition_walk import Filter, PartitionWalk
from quiver.search.request import SearchRequest
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

MOST_TAILS = 100
HEARTBEAT_SECONDS = 5.0
_PAUSE_SECONDS = 0.1
"""Between two looks, so that a busy topic is looked at ten times per second at most."""
_LOOK_SECONDS = 0.02
"""How long one look may take; what it does not get to is dropped."""
_EVERYTHING = Expression("true")


class TailRequest(NamedTuple):
    topic: str
    where: Expression | None = None
    rate: int = 100
    """Messages per second."""
    partition: int | None = None
    """None: all."""


class TailPart(NamedTuple):
    """What has come since the part before. Neither messages nor drops: a heartbeat."""

    messages: list[StoredMessage]
    """In order within a partition."""
    dropped: int = 0
    """Messages that were not looked at, because more came than may be shown."""


class Tails:
    def __init__(self, catalogue: TopicCatalogue, partitions: Partitions, *, clock: Clock) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._clock = clock
        self._open: set[_Tail] = set()
        self._is_stopped = False

    async def follow(self, request: TailRequest) -> AsyncGenerator[TailPart, None]:
        """Parts without an end, from the first one on, which is empty. The caller closes the generator.

        Raises TopicNotFound when the topic is deleted, and ShuttingDown when the broker stops.
        """
        topic = self._catalogue.topic(request.topic)
        count = topic.config.partitions
        if request.partition is not None and not 0 <= request.partition < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=request.partition)
        self._check_room()
        return self._parts(topic, request)

    def _check_room(self) -> None:
        if self._is_stopped:
            raise ShuttingDown()
        if len(self._open) >= MOST_TAILS:
            raise Overloaded(problem=f"{MOST_TAILS} live tails are open")

    async def _parts(self, topic: Topic, request: TailRequest) -> AsyncGenerator[TailPart, None]:
        self._check_room()
        tail = _Tail(topic, request, self._partitions, self._clock)
        self._open.add(tail)
        try:
            yield TailPart([])
            while True:
                try:
                    part = await tail.next()
                    self._catalogue.topic_by_id(topic.id)
                except TopicNotFound:
                    raise TopicNotFound(f"topic {topic.name!r} was deleted", topic=topic.name) from None
                if self._is_stopped:
                    raise ShuttingDown()
                yield part
        finally:
            self._open.discard(tail)
            tail.close()

    async def stop(self) -> None:
        self._is_stopped = True
        for tail in self._open:
            tail.wake.set()


class _Tail:
    def __init__(self, topic: Topic, request: TailRequest, partitions: Partitions, clock: Clock) -> None:
        self.topic = topic
        self._request = request
        self._partitions = partitions
        self._clock = clock
        self.wake = asyncio.Event()
        self._news: set[int] = set()
        self._positions: dict[int, int] = {}
        self._watched: list[tuple[CommittedView, Callable[[], None]]] = []
        self._room = float(request.rate)
        self._looked_at = clock.monotonic()
        for number, partition in self._wanted():
            self._watch(number, partition, partition.committed.last_stable)

    def _wanted(self) -> list[tuple[int, Partition]]:
        only = self._request.partition
        return [place for place in self._partitions.owned(self.topic.id) if only is None or place[0] == only]

    def _watch(self, number: int, partition: Partition, position: int) -> None:
        self._positions[number] = position
        on_news = partial(self._note, number)
        partition.committed.watch(on_news)
        self._watched.append((partition.committed, on_news))

    def close(self) -> None:
        for committed, on_news in self._watched:
            committed.unwatch(on_news)

    def _note(self, number: int) -> None:
        self._news.add(number)
        self.wake.set()

    async def next(self) -> TailPart:
        """Waits for something new, or for the time of a heartbeat."""
        for number, partition in self._wanted():
            if number not in self._positions:  # added since; it is read from its first message on
                self._watch(number, partition, 0)
                self._note(number)
        pause = self._looked_at + _PAUSE_SECONDS - self._clock.monotonic()
        if pause > 0:
            await asyncio.sleep(pause)
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self.wake.wait()
        except TimeoutError:
            return TailPart([])
        self.wake.clear()
        return await self._look()

    async def _look(self) -> TailPart:
        now, rate = self._clock.monotonic(), self._request.rate
        self._room = min(float(rate), self._room + (now - self._looked_at) * rate)
        self._looked_at = now
        news, self._news = self._news, set()
        request = SearchRequest(self._request.where or _EVERYTHING, newest_first=False)
        filter = Filter(request, now_ms=self._clock.now_ms(), ttl_ms=self.topic.config.ttl_ms)
        messages: list[StoredMessage] = []
        dropped = 0
        for number in sorted(news):
            found, left_out = await self._look_at(number, filter, now + _LOOK_SECONDS)
            messages += found
            dropped += left_out
        return TailPart(messages, dropped)

    async def _look_at(self, number: int, filter: Filter, until: float) -> tuple[list[StoredMessage], int]:
        """What is new in a partition, and how many messages are left out."""
        partition = self._partitions.get(self.topic.id, number)
        end, position = partition.committed.last_stable, self._positions[number]
        dropped = 0
        if self._request.where is None and end - position > self._room:
            dropped = end - position - int(self._room)
            position += dropped
        walk = PartitionWalk(number, partition, filter, (position, end))
        messages: list[StoredMessage] = []
        while not walk.is_done and self._room >= 1 and self._clock.monotonic() < until:
            found = await walk.step(int(self._room))
            messages += found
            self._room -= len(found)
        self._positions[number] = max(end, position)
        return messages, dropped + walk.left
