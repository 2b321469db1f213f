"""Receiving: leases what there is for a consumer, or waits for it."""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any

from quiver.groups.table import Group
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.position import Position
from quiver.model.receive import ReceiveRequest
from quiver.model.settlement import NACK, SettleRequest
from quiver.model.topic import Topic
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.receive_call import PartitionLease, ReceiveCall, Received
from quiver.queues.settle import SettleHandler
from quiver.queues.topic_queue import TopicQueue
from quiver.system.clock import Clock
from quiver.system.pace import Pace, Turnstile
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)


class ReceiveHandler:
    """Nothing is lost on the way: what was taken and does not reach its consumer is given back uncounted."""

    def __init__(
        self,
        partitions: Partitions,
        partition_queues: PartitionQueues,
        settle_handler: SettleHandler,
        *,
        clock: Clock,
        lease_clock: Clock,
        limits: Limits,
    ) -> None:
        self._partitions = partitions
        self._partition_queues = partition_queues
        self._settle_handler = settle_handler
        self._clock = clock
        self._lease_clock = lease_clock
        self._limits = limits
        self.queues: dict[tuple[int, int], TopicQueue] = {}
        """By topic id and group id: those that were received from since the start."""
        self._turnstile = Turnstile()
        self._first = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def stop(self) -> None:
        """Returns when everything that was taken is delivered or given back."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, request: ReceiveRequest, topics: Sequence[Topic], group: Group) -> list[Received]:
        queues = await self._begun(topics, request.group, group, request.start)
        max_bytes = max(1, min(request.max_bytes, self._limits.fetch_bytes))
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
        """As if they had not been given."""
        parts = [
            SettleRequest(topic.id, run.partition, run.group_id, run.lease_id, NACK, [(run.start, run.end)], 0, False)
            for topic, _, run in received
        ]
        if parts:
            await self._settle_handler.settle(parts)

    def give_back_later(self, received: Sequence[Received]) -> None:
        """The same, for those who cannot wait."""
        if received:
            self._spawn(self.give_back(received))

    async def _begun(
        self, topics: Sequence[Topic], name: str, group: Group, start: Position | None
    ) -> list[TopicQueue]:
        """The queues to ask, each topic being first in its turn."""
        queues = []
        for topic in topics:
            queue = self.queues.get((topic.id, group.id))
            if queue is None:
                if not self._partitions.of(topic.id):
                    raise TopicNotFound(topic=topic.name)
                queue = TopicQueue(
                    topic,
                    name,
                    group,
                    self._partitions,
                    self._partition_queues,
                    turnstile=self._turnstile,
                    clock=self._clock,
                    lease_clock=self._lease_clock,
                )
                self.queues[topic.id, group.id] = queue
            queue.configure(topic, group)
            if not queue.has_begun:
                await queue.begin(start)
            queues.append(queue)
        if len(queues) > 1:
            self._first += 1
            first = self._first % len(queues)
            queues = queues[first:] + queues[:first]
        return queues

    async def _take(self, call: ReceiveCall, queues: Sequence[TopicQueue], deadline: float) -> None:
        """Takes what there is, from all queues, or waits for the first that has something."""
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
        """Journals the leases and loads the messages; those beyond `max_bytes` are to be had again."""
        found: list[tuple[int, Received]] = []
        leases, pace = deque(call.leases.values()), Pace()
        try:
            is_full = False
            while leases and not is_full:
                lease = leases.popleft()
                try:
                    received = await self._deliver_lease(lease, max_bytes)
                except (QuiverError, OSError) as error:
                    logger.warning("nothing is delivered from %s: %s", lease.partition_queue.partition.name, error)
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
            runs = await partition_queue.deliver(
                queue.group_id,
                lease.lease_id,
                lease.taken,
                ttl_ms=queue.topic.config.ttl_ms,
                settings=queue.settings,
                max_bytes=max_bytes,
            )
            delivered = sum(run.end - run.start for run in runs)
        finally:
            self._partition_queues.note(partition_queue, lease.deadline_ms)
            if delivered != lease.count:
                queue.settled(partition_queue.number, frees=True)
        return [Received(queue.topic, lease.visibility_ms, run) for run in runs]

    async def _return(self, leases: Iterable[PartitionLease]) -> None:
        """The leases go their way through the journal first: nothing is given back that was not given."""
        for lease in leases:
            try:
                await self.give_back(await self._deliver_lease(lease, 1))
            except (QuiverError, OSError) as error:
                logger.warning("leases of %s wait for their end: %s", lease.partition_queue.partition.name, error)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
