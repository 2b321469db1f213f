"""Receive: leases the messages that are available to a consumer, or waits for some."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple

from quiver.groups.events import Group
from quiver.model.errors import QuiverError
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.topic import Topic
from quiver.queues.context import QueueContext
from quiver.queues.lease_times import LeaseTimes
from quiver.queues.partition.lease_issuer import DeliveredRun
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.settle import SettleHandler
from quiver.queues.state.port import KeyLimit, LeaseTerms, Taken
from quiver.queues.topic.available_partitions import ALL_LEVELS
from quiver.queues.topic.topic_queue import TopicQueue
from quiver.queues.topic.topic_queues import TopicQueues
from quiver.system.pace import Pace

logger = logging.getLogger(__name__)


class Received(NamedTuple):
    """A run of messages that a consumer was given."""

    topic: Topic
    visibility_ms: int
    run: DeliveredRun


def given_back(received: Sequence[Received]) -> list[SettleRequest]:
    """Settles messages as if they had not been delivered."""
    return [
        SettleRequest(topic.id, run.partition, run.group_id, run.lease_id, NACK, [(run.start, run.end)], 0, False)
        for topic, _, run in received
    ]


class PartitionLease:
    """What a receive call takes from one partition, under one lease."""

    __slots__ = ("count", "partition_queue", "places", "queue", "taken", "terms", "visibility_ms")

    def __init__(
        self, queue: TopicQueue, partition_queue: PartitionQueue, terms: LeaseTerms, visibility_ms: int
    ) -> None:
        self.queue = queue
        self.partition_queue = partition_queue
        self.terms = terms
        self.visibility_ms = visibility_ms
        self.count = 0
        """How many messages it has."""
        self.taken: list[Taken] = []
        self.places: list[int] = []
        """The place of each run in the order of delivery, over all partitions."""

    def places_of(self, received: Sequence[Received]) -> list[int]:
        """The places of what was delivered, which comes in the order in which it was taken."""
        found, at = [], 0
        for one in received:
            start = one.run.start
            while not self.taken[at].start <= start < self.taken[at].end:
                at += 1
            found.append(self.places[at])
        return found


class ReceiveCall:
    """One receive: it waits in the queue of every topic that it names, and is filled by whichever has messages."""

    def __init__(self, request: ReceiveRequest) -> None:
        self.consumer = request.consumer
        self.remaining = request.max_messages
        self.visibility_ms = request.visibility_ms
        self.levels = ALL_LEVELS if request.priority is None else 1 << request.priority
        self.keys: KeyLimit | None = None
        """The keys that it takes; None: all."""
        if request.key is not None or request.max_keys is not None:
            self.keys = KeyLimit(request.key, request.max_keys or 1)
        self.leases: dict[PartitionQueue, PartitionLease] = {}
        """In the order in which they were taken."""
        self.problem: QuiverError | None = None
        """An error on the way; raised only when there is nothing to return."""
        self._runs = 0
        self._is_closed = False
        self._news: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether it takes more."""
        return self.remaining > 0 and not self._is_closed and (self.keys is None or self.keys.left > 0)

    def lease(self, queue: TopicQueue, partition_queue: PartitionQueue, now_ms: int) -> PartitionLease:
        """The call's lease for a partition; a new one until something was added to it."""
        if partition_queue in self.leases:
            return self.leases[partition_queue]
        visibility_ms = self.visibility_ms or queue.settings.visibility_ms
        terms = LeaseTerms(partition_queue.issuer.new_lease_id(), self.consumer, now_ms + visibility_ms, self.keys)
        return PartitionLease(queue, partition_queue, terms, visibility_ms)

    def add(self, lease: PartitionLease, taken: Sequence[Taken]) -> int:
        """Returns how many messages were added."""
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
        """Ends the wait with an error."""
        self.problem = error
        self._is_closed = True
        self.wake()

    def close(self) -> None:
        """Takes no more."""
        self._is_closed = True

    async def wait(self, seconds: float) -> None:
        """Returns when the call has messages, has failed, or the time is over."""
        if self.leases or self._is_closed:
            return
        self._news = asyncio.get_running_loop().create_future()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news


class ReceiveHandler:
    """Nothing is lost on the way: what was taken and does not reach its consumer is given back, and the delivery does
    not count."""

    def __init__(
        self, topic_queues: TopicQueues, settle: SettleHandler, times: LeaseTimes, context: QueueContext
    ) -> None:
        self._topic_queues = topic_queues
        self._settle = settle
        self._times = times
        self._clock = context.clock
        self._max_bytes = context.limits.fetch_bytes
        self._tasks: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        """Returns when everything that was taken is delivered or given back."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, request: ReceiveRequest, topics: Sequence[Topic], group: Group) -> list[Received]:
        queues = await self._topic_queues.begun(topics, group, request.start)
        max_bytes = max(1, min(request.max_bytes, self._max_bytes))
        deadline = self._clock.monotonic() + request.wait_ms / 1000
        while True:
            call = ReceiveCall(request)
            await self._take(call, queues, deadline)
            received = await self._deliver(call, max_bytes) if call.leases else []
            if call.problem is not None and not received:
                raise call.problem
            if received or not call.leases:
                return received

    async def give_back(self, received: Sequence[Received]) -> None:
        """As if they had not been delivered."""
        if received:
            await self._settle.settle(given_back(received))

    def give_back_later(self, received: Sequence[Received]) -> None:
        """The same, for callers that cannot wait."""
        if received:
            self._spawn(self.give_back(received))

    async def _take(self, call: ReceiveCall, queues: Sequence[TopicQueue], deadline: float) -> None:
        """Takes what is available, from all queues, or waits for the first that has something."""
        try:
            for queue in queues:
                await queue.join(call)
                if not call.is_open:
                    break
            remaining = deadline - self._clock.monotonic()
            if not call.leases and remaining > 0:
                await call.wait(remaining)
        except BaseException:
            if call.leases:
                self._spawn(self._return(call.leases.values()))
            raise
        finally:
            call.close()
            for queue in queues:
                queue.leave(call)

    async def _deliver(self, call: ReceiveCall, max_bytes: int) -> list[Received]:
        """Journals the leases and loads the messages; those beyond `max_bytes` become available again."""
        found: list[tuple[int, Received]] = []
        leases, pace = deque(call.leases.values()), Pace()
        try:
            is_full = False
            while leases and not is_full:
                lease = leases.popleft()
                try:
                    received = await self._deliver_lease(lease, max_bytes)
                except (QuiverError, OSError) as error:
                    logger.warning(
                        "nothing can be delivered from %s: %s", lease.partition_queue.partition.name, error
                    )
                    call.problem = error if isinstance(error, QuiverError) else QuiverError()
                    continue
                found += zip(lease.places_of(received), received, strict=True)
                max_bytes -= sum(len(one.run.frame) for one in received)
                await pace.turn()
                is_full = max_bytes <= 0 or not received or received[-1].run.end != lease.taken[-1].end
        except BaseException:
            self.give_back_later([one for _, one in found])
            raise
        finally:
            if leases:
                self._spawn(self._return(leases))
        if len(call.leases) > 1:
            found.sort(key=lambda placed: placed[0])
        return [received for _, received in found]

    async def _deliver_lease(self, lease: PartitionLease, max_bytes: int) -> list[Received]:
        queue, partition_queue, delivered = lease.queue, lease.partition_queue, 0
        try:
            runs = await partition_queue.issuer.deliver(
                queue.group_id,
                lease.terms.lease,
                lease.taken,
                ttl_ms=queue.topic.config.ttl_ms,
                settings=queue.settings,
                max_bytes=max_bytes,
            )
            delivered = sum(run.end - run.start for run in runs)
        finally:
            self._times.note(partition_queue, lease.terms.deadline_ms)
            if delivered != lease.count:
                queue.settled(partition_queue.place.partition, frees=True)
        return [Received(queue.topic, lease.visibility_ms, run) for run in runs]

    async def _return(self, leases: Iterable[PartitionLease]) -> None:
        """The leases go through the journal first: only what was leased there can be given back."""
        for lease in leases:
            try:
                await self.give_back(await self._deliver_lease(lease, 1))
            except (QuiverError, OSError) as error:
                logger.warning(
                    "leases of %s could not be given back and will expire: %s",
                    lease.partition_queue.partition.name,
                    error,
                )

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
