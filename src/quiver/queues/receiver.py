"""One receive call: what it asks for, and what it was given so far."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from quiver.model.errors import QuiverError
from quiver.model.topic import Topic
from quiver.queues.fair_scheduler import ALL_LEVELS
from quiver.queues.partition.partition_queue import Delivery, PartitionDelivery
from quiver.queues.state.port import Taken

if TYPE_CHECKING:
    from quiver.queues.topic_queue import TopicQueue


class Received(NamedTuple):
    """A run of messages that a consumer was given."""

    topic: Topic
    visibility_ms: int
    delivery: Delivery


class Lot:
    """What a receiver takes from one partition, under one lease."""

    __slots__ = ("count", "deadline_ms", "delivery", "lease", "places", "queue", "taken", "visibility_ms")

    def __init__(
        self, queue: "TopicQueue", delivery: PartitionDelivery, visibility_ms: int, deadline_ms: int
    ) -> None:
        self.queue = queue
        self.delivery = delivery
        self.lease = delivery.new_lease_id()
        self.visibility_ms = visibility_ms
        self.deadline_ms = deadline_ms
        self.count = 0
        """Of messages."""
        self.taken: list[Taken] = []
        self.places: list[int] = []
        """Of each run among all that the receiver takes: the order of delivery."""

    def places_of(self, received: Sequence[Received]) -> list[int]:
        """Of what was delivered, which comes in the order in which it was taken."""
        found, at = [], 0
        for one in received:
            start = one.delivery.start
            while not self.taken[at].start <= start < self.taken[at].end:
                at += 1
            found.append(self.places[at])
        return found


class Receiver:
    """Waits in the queue of every topic that it asks for, and is filled by whichever has something."""

    def __init__(
        self, consumer: str, *, max_messages: int, visibility_ms: int | None, levels: int = ALL_LEVELS
    ) -> None:
        self.consumer = consumer
        self.remaining = max_messages
        self.visibility_ms = visibility_ms
        self.levels = levels
        self.lots: dict[PartitionDelivery, Lot] = {}
        """In the order in which they were begun."""
        self.problem: QuiverError | None = None
        """Met on the way; of interest when there is nothing else to answer."""
        self._runs = 0
        self._is_closed = False
        self._news: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it takes more."""
        return self.remaining > 0 and not self._is_closed

    def lot(self, queue: "TopicQueue", delivery: PartitionDelivery, now_ms: int) -> Lot:
        """The one for a partition; until something is added to it, a new one."""
        if delivery in self.lots:
            return self.lots[delivery]
        visibility_ms = self.visibility_ms or queue.settings.visibility_ms
        return Lot(queue, delivery, visibility_ms, now_ms + visibility_ms)

    def add(self, lot: Lot, taken: Sequence[Taken]) -> int:
        """Returns how many messages these are."""
        count = 0
        if taken:
            self.lots[lot.delivery] = lot
        for run in taken:
            lot.taken.append(run)
            lot.places.append(self._runs)
            self._runs += 1
            count += run.end - run.start
        lot.count += count
        self.remaining -= count
        return count

    def wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def fail(self, error: QuiverError) -> None:
        """Ends the waiting."""
        self.problem = error
        self._is_closed = True
        self.wake()

    def close(self) -> None:
        """Takes no more."""
        self._is_closed = True

    async def wait(self, seconds: float) -> None:
        """Returns when it was given something, has failed, or waited for so long."""
        if self.lots or self._is_closed:
            return
        self._news = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news
