"""One receive call: what it asks for, and what it was given so far."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from quiver.model.errors import QuiverError
from quiver.model.receive import ReceiveRequest
from quiver.model.topic import Topic
from quiver.queues.partition.lease_issuer import DeliveredRun
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.state.port import Taken
from quiver.queues.topic.fair_scheduler import ALL_LEVELS

if TYPE_CHECKING:
    from quiver.queues.topic.topic_queue import TopicQueue


class Received(NamedTuple):
    """A run of messages that a consumer was given."""

    topic: Topic
    visibility_ms: int
    run: DeliveredRun


class PartitionLease:
    """What a receiver takes from one partition, under one lease."""

    __slots__ = ("count", "deadline_ms", "lease_id", "partition_queue", "places", "queue", "taken", "visibility_ms")

    def __init__(
        self, queue: "TopicQueue", partition_queue: PartitionQueue, visibility_ms: int, deadline_ms: int
    ) -> None:
        self.queue = queue
        self.partition_queue = partition_queue
        self.lease_id = partition_queue.issuer.new_lease_id()
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
            start = one.run.start
            while not self.taken[at].start <= start < self.taken[at].end:
                at += 1
            found.append(self.places[at])
        return found


class ReceiveCall:
    """Waits in the queue of every topic that it asks for, and is filled by whichever has something."""

    def __init__(self, request: ReceiveRequest) -> None:
        self.consumer = request.consumer
        self.remaining = request.max_messages
        self.visibility_ms = request.visibility_ms
        self.levels = ALL_LEVELS if request.priority is None else 1 << request.priority
        self.leases: dict[PartitionQueue, PartitionLease] = {}
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

    def lease(self, queue: "TopicQueue", partition_queue: PartitionQueue, now_ms: int) -> PartitionLease:
        """The one for a partition; until something is added to it, a new one."""
        if partition_queue in self.leases:
            return self.leases[partition_queue]
        visibility_ms = self.visibility_ms or queue.settings.visibility_ms
        return PartitionLease(queue, partition_queue, visibility_ms, now_ms + visibility_ms)

    def add(self, lease: PartitionLease, taken: Sequence[Taken]) -> int:
        """Returns how many messages these are."""
        count = 0
        if taken:
            self.leases[lease.partition_queue] = lease
        for run in taken:
            lease.taken.append(run)
            lease.places.append(self._runs)
            self._runs += 1
            count += run.end - run.start
        lease.count += count
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
        if self.leases or self._is_closed:
            return
        self._news = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news
