"""The broker: what gateways call. It composes the use cases and holds no logic of its own."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Unpack

from quiver.broker.health import Health
from quiver.broker.maintenance import Upkeep
from quiver.broker.settings import BrokerSettings as BrokerSettings
from quiver.broker.topic_removal import TopicRemovals
from quiver.dead_letters.mover import DeadLetterMover
from quiver.dead_letters.service import DeadLetters
from quiver.delays.service import Delays
from quiver.groups.service import GroupService
from quiver.groups.state import TopicSize
from quiver.messages.browse import Browse, MessagePage, ReadOptions
from quiver.messages.fetch import Fetch, FetchedSlice, FetchPart
from quiver.messages.publish import Publish, Published
from quiver.model.errors import QuiverError, ShuttingDown, TopicExists, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.numbers import HIGHEST
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.partition.partition import Appended, Frame, Partition
from quiver.queues.service import Queues
from quiver.queues.stats import QueueStats
from quiver.schedules.service import Schedules
from quiver.storage.port import Storage
from quiver.streams.members import Members
from quiver.streams.poll.poll import Poll
from quiver.streams.service import Groups
from quiver.system.clock import Clock, SteadyClock, SystemClock
from quiver.system.pace import bounded_gather
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.topics.compaction import Compactions, TopicCompaction
from quiver.topics.details import TopicDetails, topic_details
from quiver.topics.partitions import Partitions
from quiver.topics.service import MetadataService
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.decision_applier import Finishing
from quiver.transactions.service import Transactions
from quiver.transactions.state import LAST_EPOCH

logger = logging.getLogger(__name__)


class BrokerStats(NamedTuple):
    uptime_seconds: float
    topics: list[TopicDetails]

    @property
    def size_bytes(self) -> int:
        return sum(details.size_bytes for details in self.topics)


class Broker:
    def __init__(
        self,
        storage: Storage,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        settings: BrokerSettings | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.clock = clock or SystemClock()
        self.settings = settings or BrokerSettings()
        self._storage = storage
        randomness = randomness or SystemRandomness()
        self._metadata = MetadataService(
            clock=self.clock, randomness=randomness, defaults=self.settings.topic_defaults, limits=self.limits
        )
        self._partitions = Partitions(storage, clock=self.clock, limits=self.limits)
        self.delays = Delays(storage, self._metadata, self._partitions, clock=self.clock)
        coordinator = Coordinator(
            clock=self.clock,
            new_producer_id=self._metadata.new_producer_id,
            open_max_ms=self.settings.transaction_max_ms,
        )
        self._publish = Publish(self._metadata, self._partitions, self.delays, coordinator, clock=self.clock)
        self._fetch = Fetch(self._partitions, clock=self.clock, limits=self.limits)
        self._browse = Browse(self._partitions, clock=self.clock)
        self._group_service = GroupService(clock=self.clock, randomness=randomness, topics=self._topic_sizes)
        self.queues = self._new_queues(randomness)
        self.queue_stats = QueueStats(
            self._metadata, self._partitions, self._group_service, self.queues, clock=self.clock
        )
        self.groups = Groups(
            self._group_service, self._metadata, self._partitions, clock=self.clock, queues=self.queues
        )
        self.transactions = self._new_transactions(coordinator)
        self.poll = Poll(self.groups, self.queues, self._metadata, self._partitions, clock=self.clock)
        self.members = Members(self.groups, self.poll.readers)
        mover = DeadLetterMover(
            self._metadata,
            self._partitions,
            group_name=lambda group_id: self._group_service.name_of(group_id) or str(group_id),
            create_topic=self.create_topic,
            alter_topic=self.alter_topic,
            clock=self.clock,
        )
        self.dead_letters = DeadLetters(self._metadata, self._partitions, mover, queues=lambda: self.queues)
        self.schedules = Schedules(
            self._metadata,
            self._partitions,
            clock=self.clock,
            randomness=randomness,
            ensure_topic=self.ensure_topic,
        )
        self._upkeep = Upkeep(self._metadata, self._partitions, every_seconds=self.settings.upkeep_seconds)
        self._compactions = Compactions(
            self._metadata, self._partitions, clock=self.clock, every_seconds=self.settings.upkeep_seconds
        )
        self._removals = TopicRemovals(
            self._metadata, self._partitions, self.queues, self.delays, self._group_service
        )
        self._health = self._new_health()
        self._admin = asyncio.Lock()
        self._unowned: set[int] = set()
        self._running = False
        self._started_at = self.clock.monotonic()

    def _new_queues(self, randomness: Randomness) -> Queues:
        return Queues(
            self._storage,
            self._metadata,
            self._partitions,
            self._group_service,
            clock=self.clock,
            lease_clock=SteadyClock(self.clock),
            randomness=randomness,
            limits=self.limits,
            move_to_dlq=lambda delivery, move: self.dead_letters.move_to_dlq(delivery, move),
            pending_delays=self.delays.pending_count,
            history=self.settings.delivery_history,
        )

    def _new_transactions(self, coordinator: Coordinator) -> Transactions:
        finishing = Finishing(
            coordinator, self._metadata, self._partitions, self.delays, self._group_service, self.queues
        )
        return Transactions(
            coordinator,
            self._publish,
            finishing,
            self._metadata,
            self._partitions,
            self.groups,
            self.queues,
            clock=self.clock,
        )

    def _new_health(self) -> Health:
        return Health(
            self._storage,
            self._partitions,
            self.delays,
            self.queues,
            parts={"groups": self._group_service, "transactions": self.transactions, "schedules": self.schedules},
            tasks=[
                self._upkeep.task,
                self._compactions.task,
                self.queues.task,
                *self.delays.tasks,
                self._group_service.task,
                self.transactions.task,
            ],
        )

    async def start(self) -> None:
        """Recovers everything and begins to work."""
        self._partitions.epoch = await self._storage.next_epoch()
        await self._metadata.open(self._storage, self._partitions.epoch)
        topics = self._metadata.topics()
        known = {topic.id for topic in (*topics, *self._metadata.deleting())}
        self._unowned = await self._partitions.unowned_topic_ids(known)
        for topic_id in self._unowned:
            logger.error("the files of topic id %d belong to no topic; they are kept", topic_id)
        await self._partitions.open_topics(topics)
        await self._group_service.open(self._storage, self._partitions.epoch)
        self._upkeep.start()
        self._compactions.start()
        self._running = True
        groups_lost = self._group_service.problem
        if groups_lost is None:
            await self.queues.open()
        await self.delays.start()
        if groups_lost is None:
            await self.transactions.start(self._storage, self._partitions.epoch)
            await self.queues.start()
        else:
            self.transactions.refuse(groups_lost)
        await self.schedules.start(self._storage, self._partitions.epoch)
        self._removals.resume()

    async def stop(self) -> None:
        """Refuses new work and finishes what was accepted. The storage is closed by whoever opened it."""
        self._running = False
        await self._removals.stop()
        await self._compactions.stop()
        await self._upkeep.stop()
        await self.schedules.stop()
        await self.transactions.stop()
        await self.delays.stop()
        await self.queues.stop()
        await self._group_service.close()
        await self._partitions.close()
        await self._metadata.close()

    @property
    def node_id(self) -> str:
        return self._metadata.node_id

    # topics

    def topics(self) -> list[Topic]:
        return self._metadata.topics()

    def topic(self, name: str) -> Topic:
        return self._metadata.topic(name)

    async def create_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Returns when the topic takes messages."""
        self._check_running()
        async with self._admin:
            free_id = max(self._unowned, default=0) + 1
            topic = await self._metadata.create(name, settings, free_id=free_id)
            await self._partitions.open_topic(topic)
        await self._group_service.topic_changed(name)
        return topic

    async def alter_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Changes settings while the topic is in use; `partitions` may only grow."""
        self._check_running()
        async with self._admin:
            topic = await self._alter_topic(name, settings)
        await self._group_service.topic_changed(name)
        return topic

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        """Returns the old and the new count."""
        self._check_running()
        async with self._admin:
            old = self._metadata.topic(name).config.partitions
            topic = await self._alter_topic(name, {"partitions": count})
        await self._group_service.topic_changed(name)
        return old, topic.config.partitions

    async def _alter_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        # New partitions are open before anybody can hear of them.
        await self._partitions.open_topic(self._metadata.altered(name, settings))
        topic = await self._metadata.alter(name, settings)
        await self._partitions.reconfigure(topic)
        await self.delays.reconfigure(topic)
        await self.queues.topic_changed(topic)
        return topic

    async def delete_topic(self, name: str) -> None:
        """Returns when the topic is gone for everybody, and its files too unless there are very many."""
        self._check_running()
        async with self._admin:
            topic = await self._metadata.delete(name)
        await self._removals.remove(topic)

    async def purge_topic(self, name: str) -> None:
        """Removes all messages; offsets go on."""
        self._check_running()
        topic = self._metadata.topic(name)
        await bounded_gather(Partition.purge, self._partitions.of(topic.id))
        await self.queues.topic_purged(topic.id)
        await self.delays.purge(topic.id)

    async def compact_topic(
        self, name: str, partitions: Sequence[int] | None = None, *, dry_run: bool = False
    ) -> TopicCompaction:
        """Compacts now, the active segments included."""
        self._check_running()
        return await self._compactions.compact(name, partitions, dry_run=dry_run)

    async def describe(self, name: str) -> TopicDetails:
        topic = self._metadata.topic(name)
        return await topic_details(topic, self._partitions.of(topic.id))

    # groups

    async def delete_group(self, name: str) -> None:
        """Removes a group without members, and where it is in every topic."""
        self._check_running()
        group_id = self._group_service.group(name).id
        self.queues.check_idle(name)
        await self._group_service.delete(name)
        await self.queues.group_deleted(group_id)

    # messages

    def produce(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0
    ) -> "asyncio.Future[Appended]":
        self._check_running()
        return self._publish.frame(topic_id, partition, frame, partition_count=partition_count)

    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        self._check_running()
        await self.ensure_topic(topic)
        return await self._publish.messages(topic, messages)

    async def ensure_topic(self, name: str) -> None:
        """Creates a topic that is published to, where the settings allow it."""
        if not self.settings.auto_create:
            return
        try:
            self._metadata.topic(name)
        except TopicNotFound:
            with contextlib.suppress(TopicExists):
                await self.create_topic(name, {})

    async def fetch(
        self,
        parts: Sequence[FetchPart],
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        read_committed: bool = True,
    ) -> list[FetchedSlice]:
        self._check_running()
        return await self._fetch.fetch(
            parts,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            read_committed=read_committed,
        )

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        return await self._fetch.find_offset(topic_id, partition, position, read_committed=read_committed)

    async def read_messages(self, topic: str, partition: int, **options: Unpack[ReadOptions]) -> MessagePage:
        return await self._browse.read(self._metadata.topic(topic), partition, **options)

    async def init_producer(self, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        """A new producer id with epoch 0, or the next epoch of a producer's own id, unless that has had its last."""
        self._check_running()
        if 0 <= producer_id <= HIGHEST and -1 <= epoch < LAST_EPOCH:
            following = await self.transactions.next_epoch(producer_id, epoch)
            if following is None:
                return await self._metadata.next_producer_epoch(producer_id, epoch)
            return following.producer_id, following.epoch
        return await self._metadata.new_producer_id(), 0

    # health

    def problems(self) -> dict[str, str]:
        """What takes no writes or cannot be read, and why; empty when all is well."""
        found = self._health.problems()
        if self._unowned:
            found["catalogue"] = f"topic ids {sorted(self._unowned)} have files but no entry; restore the metadata"
        return found

    def warnings(self) -> dict[str, str]:
        """What was found damaged, though everything takes reads and writes."""
        return self._health.warnings()

    async def stats(self) -> BrokerStats:
        uptime = self.clock.monotonic() - self._started_at
        topics = [await topic_details(topic, self._partitions.of(topic.id)) for topic in self.topics()]
        return BrokerStats(uptime, topics)

    def _topic_sizes(self) -> dict[str, TopicSize]:
        return {t.name: TopicSize(t.id, t.config.partitions) for t in self._metadata.topics()}

    def _check_running(self) -> None:
        if not self._running:
            raise ShuttingDown()
