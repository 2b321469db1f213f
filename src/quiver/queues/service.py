"""Queues: receive and settle, for groups whose consumers share messages instead of partitions."""

from collections.abc import Callable, Mapping, Sequence

from quiver.groups.service import Groups
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest, ShuttingDown
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.model.queue import QueueSettings, ReceiveRequest
from quiver.model.settlement import Receipt, SettleRequest
from quiver.model.topic import Topic
from quiver.model.transaction import LeasedAcks
from quiver.queues.context import QueueContext
from quiver.queues.depth import PartitionDepths
from quiver.queues.effective_settings import EffectiveSettings
from quiver.queues.group_watchers import GroupWatchers
from quiver.queues.journal.moves import MoveCarrier
from quiver.queues.lease_times import LeaseTimes
from quiver.queues.maintenance import QueueMaintenance
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.partition.partition_queue import LOG_SUFFIX, PartitionQueue
from quiver.queues.partition_queues import (
    PartitionQueueOpener,
    PartitionQueues,
    check_readable,
    close_all,
)
from quiver.queues.receive import Received, ReceiveHandler
from quiver.queues.settle import ReceiptOutcome, SettleHandler, TransactionAcks
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.queues.state.port import Settlement
from quiver.queues.topic.consumers import Consumer
from quiver.queues.topic.first_use import OtherQueues
from quiver.queues.topic.topic_queues import TopicQueues
from quiver.storage.port import Storage
from quiver.system.pace import bounded_gather, paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

__all__ = ["Queues", "ReceiptOutcome", "Received"]


class Queues:
    """What gateways, streams and transactions call. Parts are built in the order in which they need each other."""

    def __init__(
        self,
        storage: Storage,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        groups: Groups,
        mover: MoveCarrier,
        context: QueueContext,
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._catalogue = catalogue
        self._groups = groups
        self.lease_clock = context.lease_clock
        self._frames = context.frames
        self.watchers = GroupWatchers()
        self._times = LeaseTimes(context.lease_clock)
        self._opener = PartitionQueueOpener(storage, partitions, mover, context, self._times)
        self._partition_queues = PartitionQueues(self._opener)
        self._topic_queues = TopicQueues(partitions, self._partition_queues, self.watchers, context)
        self._settings = EffectiveSettings(catalogue, groups)
        self._settle = SettleHandler(
            catalogue, self._partition_queues, self._topic_queues, self._times, self._settings
        )
        self._receive = ReceiveHandler(self._topic_queues, self._settle, self._times, context)
        self._maintenance = QueueMaintenance(
            self._partition_queues, self._topic_queues, self._times, groups, self._settings, context
        )
        self.depths = PartitionDepths(
            catalogue, partitions, groups, self._partition_queues, lease_clock=context.lease_clock
        )
        groups.subscribe(self._topic_queues.group_changed)
        self._is_closed = False

    def share_with(self, others: OtherQueues) -> None:
        """Other processes own partitions too. Called while the broker is built."""
        self._topic_queues.others = others

    async def open(self) -> None:
        """Comes first: restores the leases and retries of all partitions."""
        await self._partition_queues.open_existing(
            self._storage, self._partitions.owned_places(), LOG_SUFFIX, "queue state"
        )

    async def start(self) -> None:
        """Leases, retries and moves continue where they were."""
        await self._maintenance.start()

    async def stop(self) -> None:
        """Receives that wait raise ShuttingDown; what was taken and not delivered is given back."""
        self._is_closed = True
        await self._topic_queues.close(ShuttingDown())
        await self._receive.stop()
        await self._maintenance.task.stop()
        await close_all(self._partition_queues)

    # receiving

    async def receive(self, request: ReceiveRequest) -> list[Received]:
        """Leases available messages, in the order of delivery; waits only while there are none, or while the consumer
        holds as many as it may. If the caller gives up, its messages become available again and the delivery does not
        count."""
        if self._is_closed:
            raise ShuttingDown()
        request.check()
        topics = [self._catalogue.topic_by_id(topic_id) for topic_id in dict.fromkeys(request.topic_ids)]
        group = await self._groups.queue_group(request.group, request.ordering)
        if group.ordering != "key" and (request.key is not None or request.max_keys is not None):
            raise InvalidRequest(
                problem=f"group {request.group!r} is not ordered by key, so it cannot be asked for certain keys"
            )
        return await self._receive.receive(request, topics, group)

    async def give_back(self, received: Sequence[Received]) -> None:
        """Messages that did not reach their consumer become available again, as if they had not been delivered."""
        await self._receive.give_back(received)

    def give_back_later(self, received: Sequence[Received]) -> None:
        """The same, for callers that cannot wait."""
        self._receive.give_back_later(received)

    async def begin_use(self, topic_id: int, group: str, start: Position) -> None:
        """The group's first use of a topic, whose partition 0 this process owns."""
        topic = self._catalogue.topic_by_id(topic_id)
        await self._topic_queues.begun([topic], self._groups.group(group), start)

    async def begin_partitions(self, topic_id: int, group: str, start: Position) -> None:
        """Begins where the group skips something, before it begins in partition 0 in another process."""
        topic = self._catalogue.topic_by_id(topic_id)
        await self._topic_queues.queue(topic, self._groups.group(group)).first_use.begin_partitions(start)

    # settling

    async def settle(self, parts: Sequence[SettleRequest]) -> list[Settlement]:
        """Each part by itself, in the order given; never raises. What is not refused is done and on disk."""
        return await self._settle.settle(parts)

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
        return await self._settle.settle_receipts(
            action, receipts, delay_ms=delay_ms, is_counted=is_counted, reason=reason
        )

    async def prepare_acks(self, acks: Sequence[LeasedAcks]) -> TransactionAcks:
        """For a transaction that is being decided: all of them, or none and the first error is raised."""
        return await self._settle.prepare_acks(acks)

    async def prepare_leases(self, decision: int, acks: Sequence[LeasedAcks]) -> None:
        """For a transaction that another worker decides: on disk, and held until `end_prepared`, also over
        restarts."""
        await self._settle.prepare_leases(decision, acks)

    async def end_prepared(self, decision: int, *, commit: bool) -> None:
        """The outcome of that transaction: on return the acks are on disk, or their leases go on."""
        await self._settle.end_prepared(decision, commit=commit)

    def prepared_decisions(self) -> set[int]:
        """Those that have leases here and whose outcome is not known."""
        return self._settle.prepared_decisions()

    # the queues of partitions

    async def partition_queue(self, topic: Topic, partition: int) -> PartitionQueue:
        """Opened if need be."""
        return await self._partition_queues.open(topic.id, partition)

    def partition_queues(self, topic_id: int) -> Mapping[int, PartitionQueue]:
        """Those that are open, by partition."""
        return self._partition_queues.of(topic_id)

    @property
    def frames(self) -> FrameCache:
        """What was read ahead, for all brokers of the process."""
        return self._frames

    def all_partition_queues(self) -> list[PartitionQueue]:
        """Those that are open."""
        return self._partition_queues.all()

    async def expire_due(self) -> None:
        """Ends expired leases and makes due retries available now, not only at the next turn of maintenance."""
        failures = Failures()
        await self._maintenance.expire_due(failures)
        failures.check()

    async def expire(self, queue: PartitionQueue) -> None:
        """Ends the expired leases of one partition now."""
        await self._maintenance.expire(queue)

    def settings_of(self, topic_id: int, group: str) -> QueueSettings:
        """What holds for a group in a topic."""
        return self._settings.of(topic_id, self._groups.group(group).id)

    def follow(self, queue: PartitionQueue, group_id: int, offset: int, version: int) -> None:
        """The group has committed an offset in the queue's partition: see `PartitionQueue.follow`."""
        if queue.follow(group_id, offset, version):
            self.watchers.wake(group_id)

    def note_time(self, queue: PartitionQueue, at_ms: int) -> None:
        """A lease ends there at that time."""
        self._times.note(queue, at_ms)

    def subscribe(self, on_opened: Callable[[PartitionQueue], None]) -> None:
        """Called in the step in which the queue of a partition becomes known. While the broker is built."""
        self._opener.subscribers.append(on_opened)

    def check_open(self, topic_id: int, partition: int) -> None:
        """CorruptData while the state of a partition's queue cannot be read."""
        check_readable(self._partition_queues, TopicPartition(topic_id, partition))

    @property
    def task(self) -> SupervisedTask:
        return self._maintenance.task

    def problems(self) -> dict[str, str]:
        """Partitions whose queue state cannot be read, and why."""
        return {
            f"delivery of topic id {topic_id}, partition {number}": problem
            for (topic_id, number), problem in self._partition_queues.problems.items()
        }

    # groups in topics

    async def pause(self, topic: str, group: str, reason: str = "") -> None:
        """From then on nothing of the topic is leased to the group until it is resumed, also after a restart."""
        await self._groups.pause(group, self._used(topic, group).id, reason)

    async def resume(self, topic: str, group: str) -> None:
        """Consumers that wait get messages again."""
        await self._groups.resume(group, self._used(topic, group).id)

    def _used(self, topic: str, group: str) -> Topic:
        """The topic; GroupNotFound if the group has never used it."""
        found = self._catalogue.topic(topic)
        self.depths.check_use(group, found)
        return found

    def consumers(self, group_id: int) -> dict[str, Consumer]:
        """The consumers of a group in all topics that were seen since the start."""
        found: dict[str, Consumer] = {}
        for queue in self._topic_queues.of_group(group_id):
            for name, one in queue.known_consumers().items():
                first_ms, last_ms, held = found.get(name, one._replace(held=0))
                found[name] = Consumer(min(first_ms, one[0]), max(last_ms, one[1]), held + one.held)
        return found

    async def leave(self, topic: str, group: str) -> None:
        """The group forgets its position in a topic. Nothing happens if it has none."""
        found = self._catalogue.topic(topic)
        known = self._groups.find(group)
        if known is None or found.id not in self.depths.topics_of(group):
            return
        for queue in self._topic_queues.of_group(known.id):
            if queue.topic.id == found.id:
                if queue.waiting:  # they would begin again at once
                    raise GroupNotEmpty(group=group, members=len(queue.waiting))
                self._topic_queues.close_queue(queue, GroupNotFound(group=group))
        queues = sorted(self.partition_queues(found.id).items(), reverse=True)  # 0 says that it uses the topic
        for _, partition_queue in queues:
            await partition_queue.forget(known.id)

    # what happens to topics and groups

    async def topic_changed(self, topic: Topic) -> None:
        """Settings, or more partitions."""
        async for queue in paced(self._topic_queues.of_topic(topic.id)):
            if self._groups.name_of(queue.group_id) == queue.name:
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
        self._topic_queues.changed(partition_queue, group_id)

    async def topic_removed(self, topic: Topic) -> None:
        await self._topic_queues.close_topic(topic.id)
        removed = await self._partition_queues.withdraw(topic.id)
        async for partition_queue in paced(removed):
            self._times.forget(partition_queue)
        await bounded_gather(PartitionQueue.abandon, removed)

    def settled_offsets(self, topic: Topic, group: str) -> dict[int, int]:
        """By partition, where a group has begun: everything below is settled."""
        found = self._groups.group(group)
        return {
            number: settled
            for number, partition_queue in self.partition_queues(topic.id).items()
            if (settled := partition_queue.settled_offset(found.id)) is not None
        }

    async def rewind(self, topic: Topic, group: str, offsets: Mapping[int, int]) -> None:
        """The group begins again there: everything below is settled, everything from there on is unread."""
        found = self._groups.group(group)
        queues = {number: await self._partition_queues.open(topic.id, number) for number in offsets}
        for number, offset in sorted(offsets.items(), reverse=True):
            if queues[number].state(found.id) is None:
                await queues[number].begin(found.id, ordering=found.ordering, start=offset)
        async for number, offset in paced(offsets.items()):
            queues[number].rewind(found.id, offset)  # also where somebody else began it meanwhile
            self._topic_queues.rewound(topic.id, number, found.id)
        await bounded_gather(PartitionQueue.durable, list(queues.values()))

    async def reopen(self, topic: Topic, partition: int, group: str, key: bytes, runs: Sequence[LeveledRun]) -> int:
        """Messages of a key that the group has settled are available again; returns how many."""
        group_id = self._groups.group(group).id
        queue = await self._partition_queues.open(topic.id, partition)
        count = await queue.reopen(group_id, key, runs)
        if count is None:
            raise GroupNotEmpty(
                "messages of the key are leased; try again when they are settled", group=group, members=1
            )
        self._topic_queues.rewound(topic.id, partition, group_id)
        return count

    def check_idle(self, group: str) -> None:
        """GroupNotEmpty while consumers wait: they would create the deleted group again."""
        queues = self._topic_queues.of_group(self._groups.group(group).id)
        waiting = {consumer for queue in queues for consumer in queue.waiting}
        if waiting:
            raise GroupNotEmpty(group=group, members=len(waiting))

    async def group_deleted(self, group_id: int) -> None:
        self._topic_queues.close_group(group_id, GroupNotFound(group=self._groups.name_of(group_id) or str(group_id)))
        using = [
            partition_queue
            for partition_queue in self._partition_queues.all()
            if partition_queue.state(group_id) is not None
        ]
        await bounded_gather(lambda partition_queue: partition_queue.forget(group_id), using)
