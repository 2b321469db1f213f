"""Queues: receive and settle, for groups whose consumers share messages instead of partitions."""

from collections.abc import Callable, Mapping, Sequence

from quiver.groups.service import Groups
from quiver.model.errors import Closed, GroupNotEmpty, GroupNotFound, ShuttingDown, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.queue import QueueSettings
from quiver.model.receipt import Receipt
from quiver.model.receive import ReceiveRequest
from quiver.model.settlement import SettleRequest
from quiver.model.topic import Topic
from quiver.model.transaction import LeasedAcks
from quiver.queues.consumers import Consumer
from quiver.queues.depth import PartitionDepth, QueueDepth, partition_depth, queue_depth
from quiver.queues.partition.partition_queue import MoveToDlq, PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.receive import ReceiveHandler
from quiver.queues.receive_call import Received
from quiver.queues.settle import ReceiptOutcome, SettleHandler, TransactionAcks, frees
from quiver.queues.state.port import Settlement
from quiver.queues.topic_queue import TopicQueue
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.pace import bounded_gather, paced
from quiver.system.randomness import Randomness
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

__all__ = ["QueueDepth", "Queues", "ReceiptOutcome", "Received"]


class Queues:
    def __init__(
        self,
        storage: Storage,
        metadata: TopicCatalogue,
        partitions: Partitions,
        groups: Groups,
        *,
        clock: Clock,
        lease_clock: Clock,
        randomness: Randomness,
        limits: Limits,
        move_to_dlq: MoveToDlq,
        pending_delays: Callable[[int], int],
        history: History = NO_HISTORY,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self.lease_clock = lease_clock
        """What leases and retries go by: steps of the wall clock do not touch them."""
        self._pending_delays = pending_delays
        self._partition_queues = PartitionQueues(
            storage,
            partitions,
            clock=clock,
            lease_clock=lease_clock,
            randomness=randomness,
            move_to_dlq=move_to_dlq,
            expire=self._expire,
            is_known=lambda group_id: groups.name_of(group_id) is not None,
            history=history,
        )
        self._settle_handler = SettleHandler(metadata, groups, self._partition_queues, on_settled=self._on_settled)
        self._receive_handler = ReceiveHandler(
            partitions,
            self._partition_queues,
            self._settle_handler,
            clock=clock,
            lease_clock=lease_clock,
            limits=limits,
        )
        self._queues = self._receive_handler.queues
        self._is_closed = False
        self._watchers: dict[int, list[Callable[[], None]]] = {}

    async def open(self) -> None:
        """Comes first: who holds what is known again."""
        await self._partition_queues.open_existing(self._metadata.topics())

    async def start(self) -> None:
        """Leases, retries and moves go on where they were."""
        await self._partition_queues.start()

    async def stop(self) -> None:
        """Whoever waits is told; what was given to nobody is to be had again."""
        self._is_closed = True
        async for queue in paced(list(self._queues.values())):
            queue.close(ShuttingDown())
        await self._receive_handler.stop()
        await self._partition_queues.close()

    # receiving

    async def receive(self, request: ReceiveRequest) -> list[Received]:
        """Leases what there is, in the order of delivery; waits only while there is nothing, or while the consumer
        holds as much as it may. What a caller that gives up was given is available again, and does not count."""
        if self._is_closed:
            raise ShuttingDown()
        request.check()
        topics = [self._metadata.topic(name) for name in dict.fromkeys(request.topics)]
        group = await self._groups.queue_group(request.group, request.ordering)
        return await self._receive_handler.receive(request, topics, group)

    async def give_back(self, received: Sequence[Received]) -> None:
        """For messages that did not reach their consumer: they are to be had again, as if they had not been given."""
        await self._receive_handler.give_back(received)

    def give_back_later(self, received: Sequence[Received]) -> None:
        """The same, for those who cannot wait."""
        self._receive_handler.give_back_later(received)

    # settling

    async def settle(self, parts: Sequence[SettleRequest]) -> list[Settlement]:
        """Each part by itself, in their order; never raises. What is not refused is done and on disk."""
        return await self._settle_handler.settle(parts)

    async def settle_receipts(
        self,
        action: int,
        receipts: Sequence[Receipt],
        *,
        delay_ms: int | None = None,
        is_counted: bool = True,
        reason: str = "",
    ) -> list[ReceiptOutcome]:
        """An outcome for each receipt, in their order."""
        return await self._settle_handler.settle_receipts(
            action, receipts, delay_ms=delay_ms, is_counted=is_counted, reason=reason
        )

    async def prepare_acks(self, acks: Sequence[LeasedAcks]) -> TransactionAcks:
        """For a transaction that is being decided on: all of them, or none and the first error."""
        return await self._settle_handler.prepare_acks(acks)

    # the state of partitions

    async def partition_queue(self, topic: Topic, partition: int) -> PartitionQueue:
        """The delivery state of a partition, opened if need be."""
        return await self._partition_queues.get(topic.id, partition)

    def partition_queues(self, topic_id: int) -> Mapping[int, PartitionQueue]:
        """Those that are open, by partition."""
        return self._partition_queues.known(topic_id)

    async def expire_due(self) -> None:
        """Ends leases and finds due retries now, rather than when the next turn comes."""
        await self._partition_queues.expire_due()

    def settings_of(self, topic_id: int, group: str) -> QueueSettings:
        """What holds for a group in a topic."""
        return self._settle_handler.settings_of(topic_id, self._groups.group(group).id)

    def note_time(self, partition_queue: PartitionQueue, at_ms: int) -> None:
        """A lease ends there at that time."""
        self._partition_queues.note(partition_queue, at_ms)

    def subscribe(self, on_opened: Callable[[PartitionQueue], None]) -> None:
        """Called in the step in which the queue of a partition becomes known. While the broker is built."""
        self._partition_queues.subscribers.append(on_opened)

    def watch(self, group_id: int, on_news: Callable[[], None]) -> None:
        """Calls back when something of a group that was given back may be had again."""
        self._watchers.setdefault(group_id, []).append(on_news)

    def unwatch(self, group_id: int, on_news: Callable[[], None]) -> None:
        watchers = self._watchers[group_id]
        watchers.remove(on_news)
        if not watchers:
            del self._watchers[group_id]

    async def expire(self, partition_queue: PartitionQueue) -> None:
        """Ends the leases of a partition whose time is over, now."""
        await self._expire(partition_queue)

    def check_open(self, topic_id: int, partition: int) -> None:
        """CorruptData while the delivery state of a partition cannot be read."""
        self._partition_queues.check_open(topic_id, partition)

    @property
    def task(self) -> SupervisedTask:
        return self._partition_queues.task

    def problems(self) -> dict[str, str]:
        """Partitions whose delivery state cannot be read, and why."""
        return {
            f"delivery of topic id {topic_id}, partition {number}": problem
            for (topic_id, number), problem in self._partition_queues.broken.items()
        }

    # depth

    async def depths(self, topic: str) -> list[QueueDepth]:
        """Of every queue group that has used the topic, by name."""
        found = self._metadata.topic(topic)
        names = sorted(self._groups_of(found.id))
        # A group may be deleted while others are looked at.
        return [await self._depth(found, name) async for name in paced(names) if self._uses(name, found.id)]

    async def depth(self, topic: str, group: str) -> QueueDepth:
        """GroupNotFound also when the group has never used the topic."""
        found = self._metadata.topic(topic)
        if not self._uses(group, found.id):
            raise GroupNotFound(
                f"there is no queue group {group!r} in topic {topic!r}; it begins with its first receive", group=group
            )
        return await self._depth(found, group)

    async def partition_depths(self, group: str, *, with_age: bool = True) -> list[PartitionDepth]:
        """Of a queue group in every partition of the topics that it has used."""
        found = []
        for topic in self._metadata.topics():
            if self._uses(group, topic.id):
                found += await self._parts(topic, group, with_age=with_age)
        return found

    def consumers(self, group_id: int) -> dict[str, Consumer]:
        """Of a group, in all topics, as far as they were heard of since the start."""
        found: dict[str, Consumer] = {}
        for queue in self._queues_of(group_id):
            for name, one in queue.known_consumers().items():
                first_ms, last_ms, held = found.get(name, one._replace(held=0))
                found[name] = Consumer(min(first_ms, one[0]), max(last_ms, one[1]), held + one.held)
        return found

    # what happens to topics and groups

    async def topic_changed(self, topic: Topic) -> None:
        """Settings, or more partitions."""
        async for (topic_id, group_id), queue in paced(list(self._queues.items())):
            if topic_id == topic.id and self._groups.name_of(group_id) == queue.name:
                queue.partitions_added()
                queue.configure(topic, self._groups.group(queue.name))

    async def topic_purged(self, topic: Topic) -> None:
        """What was removed is settled for every group."""
        known = self.partition_queues(topic.id).values()
        places = [(partition_queue, group_id) for partition_queue in known for group_id in partition_queue.group_ids]
        await bounded_gather(self._settle_purged, places)

    async def _settle_purged(self, place: tuple[PartitionQueue, int]) -> None:
        partition_queue, group_id = place
        await partition_queue.settle_below(group_id, partition_queue.partition.log.start_offset)
        self._note_change(partition_queue, group_id)

    async def topic_removed(self, topic: Topic) -> None:
        async for place in paced([place for place in self._queues if place[0] == topic.id]):
            queue = self._queues.pop(place)
            queue.close(TopicNotFound(topic=queue.topic.name))
        await self._partition_queues.close_topic(topic.id)

    def settled_offsets(self, topic: Topic, group: str) -> dict[int, int]:
        """By partition, where a group has begun: everything below is settled."""
        found = self._groups.group(group)
        return {
            number: settled
            for number, partition_queue in self.partition_queues(topic.id).items()
            if (settled := partition_queue.settled_offset(found.id)) is not None
        }

    async def rewind(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """The group begins anew there: everything below is settled, everything behind is unread."""
        found = self._groups.group(group)
        partition_queues = {number: await self._partition_queues.get(topic.id, number) for number in offsets}
        for number, offset in sorted(offsets.items(), reverse=True):
            if partition_queues[number].state(found.id) is None:
                await partition_queues[number].begin(found.id, ordering=found.ordering, start=offset)
        async for number, offset in paced(offsets.items()):
            partition_queues[number].rewind(found.id, offset)  # also where somebody else began it meanwhile
            queue = self._queues.get((topic.id, found.id))
            if queue is not None:
                queue.rewound(number)
        await bounded_gather(PartitionQueue.durable, list(partition_queues.values()))

    def check_idle(self, group: str) -> None:
        """GroupNotEmpty while consumers wait: a group that was deleted they would begin anew."""
        queues = self._queues_of(self._groups.group(group).id)
        waiting = {consumer for queue in queues for consumer in queue.waiting}
        if waiting:
            raise GroupNotEmpty(group=group, members=len(waiting))

    async def group_deleted(self, group_id: int) -> None:
        for place in [place for place in self._queues if place[1] == group_id]:
            queue = self._queues.pop(place)
            queue.close(GroupNotFound(group=queue.name))
        using = [
            partition_queue
            for partition_queue in self._partition_queues.all()
            if partition_queue.state(group_id) is not None
        ]
        await bounded_gather(lambda partition_queue: partition_queue.forget(group_id), using)

    # inside

    def _queues_of(self, group_id: int) -> list[TopicQueue]:
        return [queue for (_, id), queue in self._queues.items() if id == group_id]

    def _on_settled(self, partition_queue: PartitionQueue, part: SettleRequest, settlement: Settlement) -> None:
        self._partition_queues.note(partition_queue, settlement.until_ms)
        queue = self._queues.get((part.topic_id, part.group_id))
        if queue is not None:
            queue.settled(part.partition, frees=frees(part))
        elif frees(part):
            self.wake(part.group_id)

    def wake(self, group_id: int) -> None:
        """Something of a group may be read again."""
        for on_news in self._watchers.get(group_id, ()):
            on_news()

    def _note_change(self, partition_queue: PartitionQueue, group_id: int) -> None:
        queue = self._queues.get((partition_queue.topic_id, group_id))
        if queue is not None:
            queue.settled(partition_queue.number, frees=True)

    async def _expire(self, partition_queue: PartitionQueue) -> None:
        topic_id = partition_queue.topic_id
        for group_id in await partition_queue.expire(
            lambda group_id: self._settle_handler.settings_of(topic_id, group_id)
        ):
            self._note_change(partition_queue, group_id)

    def _groups_of(self, topic_id: int) -> set[str]:
        """The queue groups that have used a topic."""
        first = self.partition_queues(topic_id).get(0)
        ids = set() if first is None else first.group_ids
        names = {name for group_id in ids if (name := self._groups.name_of(group_id)) is not None}
        return {name for name in names if self._groups.group(name).kind == "queue"}

    def _uses(self, group: str, topic_id: int) -> bool:
        """Whether it is a queue group that has used a topic."""
        found, first = self._groups.groups().get(group), self.partition_queues(topic_id).get(0)
        if found is None or found.kind != "queue" or first is None:
            return False
        return first.state(found.id) is not None

    async def _depth(self, topic: Topic, group: str) -> QueueDepth:
        parts = await self._parts(topic, group, with_age=True)
        self._metadata.topic_by_id(topic.id)
        return queue_depth(group, parts, now_ms=self._clock.now_ms(), delayed=self._pending_delays(topic.id))

    async def _parts(self, topic: Topic, group: str, *, with_age: bool) -> list[PartitionDepth]:
        known, found = self.partition_queues(topic.id), []
        of, now_ms = self._groups.group(group), self.lease_clock.now_ms()
        async for number, partition in paced(enumerate(self._partitions.of(topic.id))):
            try:
                depth = await partition_depth(
                    topic.name, number, partition, known.get(number), of, now_ms=now_ms, with_age=with_age
                )
            except Closed:  # the topic was deleted meanwhile
                return []
            found.append(depth)
        return found
