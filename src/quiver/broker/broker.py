"""The broker: what gateways call. It composes the use cases and holds no logic of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from quiver.broker.health import Health
from quiver.broker.maintenance import Maintenance
from quiver.broker.metadata import Metadata
from quiver.broker.node import NodeStatus
from quiver.broker.settings import BrokerSettings as BrokerSettings
from quiver.broker.settled_retention import SettledRetention
from quiver.broker.stats import BrokerStats
from quiver.coordination.port import Coordination
from quiver.dead_letters.mover import DeadLetterMover
from quiver.dead_letters.redrive_jobs import RedriveJobs
from quiver.dead_letters.service import DeadLetters
from quiver.delays.service import Delays
from quiver.groups.service import Groups
from quiver.life.service import MessageLives
from quiver.messages.browse import Browse, BrowseRequest, MessagePage
from quiver.messages.fetch import Fetch, FetchedSlice, FetchOptions, FetchPart
from quiver.messages.producer_contacts import ProducerContacts
from quiver.messages.publish import ProducerTransactions, Publish, Published, PublishFuture
from quiver.metrics.backlog import BacklogCounter
from quiver.metrics.collector import Collector
from quiver.metrics.sampler import Sampler
from quiver.metrics.sources.groups import GroupNumbers
from quiver.metrics.sources.node import GatewayNumbers
from quiver.metrics.sources.storage import StorageNumbers
from quiver.metrics.sources.topics import TopicNumbers
from quiver.metrics.sources.traces import TraceNumbers
from quiver.metrics.sources.transactions import TransactionNumbers
from quiver.model.errors import QuiverError, ShuttingDown
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.names import sole_leader_epoch
from quiver.model.numbers import HIGHEST
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.outbox.targets import MoveTargets
from quiver.partition.partition import Appended, Frame
from quiver.queues.context import QueueContext
from quiver.queues.depth import QueueDepths
from quiver.queues.leases import QueueLeases
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.service import Queues
from quiver.queues.stats import QueueStats
from quiver.schedules.service import ScheduleContext, Schedules
from quiver.search.service import Searches
from quiver.search.tail import Tails
from quiver.storage.port import Storage
from quiver.streams.admin import GroupAdmin
from quiver.streams.poll.members import PollMembers
from quiver.streams.poll.poll import Poll
from quiver.streams.reset import OffsetReset
from quiver.streams.service import StreamContext, Streams
from quiver.streams.stats.lag import GroupLag
from quiver.system.clock import Clock, SteadyClock, SystemClock
from quiver.system.randomness import Randomness, SystemRandomness
from quiver.topics.admin import TopicAdmin
from quiver.topics.compaction import Compactions, TopicCompaction
from quiver.topics.details import TopicDetails, topic_details
from quiver.topics.partitions import Partitions
from quiver.traces.collector import TraceCollector
from quiver.traces.store import TraceStore
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.owners.joined_frames import JoinedFrames
from quiver.transactions.owners.own_units import OwnUnits
from quiver.transactions.publishing import OwnLogs, TransactionPublishing
from quiver.transactions.service import Transactions
from quiver.transactions.state import LAST_EPOCH


class Broker:
    def __init__(
        self,
        storage: Storage,
        *,
        limits: Limits | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        settings: BrokerSettings | None = None,
        coordination: Coordination | None = None,
    ) -> None:
        """Without `coordination`, it is in a journal of this broker."""
        self.limits = limits or Limits()
        self.clock = clock or SystemClock()
        self.settings = settings or BrokerSettings()
        self._is_controller = self.settings.placement.is_controller
        self._storage = storage
        randomness = randomness or SystemRandomness()
        self.metadata = Metadata(
            coordination, self.settings, clock=self.clock, randomness=randomness, limits=self.limits
        )
        self._catalogue, self._producer_ids = self.metadata.catalogue, self.metadata.producer_ids
        self._partitions, self.topic_admin = self._new_topics()
        self.move_targets = MoveTargets(self._partitions.get)
        self.delays = Delays(storage, self._catalogue, self._partitions, clock=self.clock)
        coordinator = Coordinator(self._producer_ids, clock=self.clock, open_max_ms=self.settings.transaction_max_ms)
        self.producer_contacts = ProducerContacts(coordinator, self._producer_ids)
        joined_frames = JoinedFrames()
        self.publishing = self._new_publish(coordinator if self._is_controller else joined_frames)
        self._fetch = Fetch(self._partitions, clock=self.clock, limits=self.limits)
        self._browse = Browse(self._partitions, clock=self.clock)
        self.groups = Groups(self.metadata.view, clock=self.clock)
        self.queues = self._new_queues(randomness)
        self.queue_depths = QueueDepths(self.queues.depths, self._catalogue, self.delays, clock=self.clock)
        self.queue_leases = QueueLeases(self.queues, self._catalogue)
        self.queue_stats = QueueStats(self._catalogue, self._partitions, self.groups, self.queues, clock=self.clock)
        self.streams = self._new_streams(randomness)
        self.lag = GroupLag(self.groups, self.streams, self.queues, clock=self.clock)
        self.offset_reset = OffsetReset(self.groups, self.streams, self._catalogue)
        self.group_admin = GroupAdmin(self.groups, self.streams, self.queues, self.lag, clock=self.clock)
        self.transactions = self._new_transactions(coordinator, joined_frames)
        self.poll = Poll(self.groups, self.streams, clock=self.clock)
        self.poll_members = PollMembers(self.streams, self.poll.sessions)
        self.dead_letters = DeadLetters(self._catalogue, self._partitions, self.queues)
        self.redrive_jobs = RedriveJobs(self.dead_letters, clock=self.clock, randomness=randomness)
        context = ScheduleContext(self.clock, randomness, self.topic_admin, self.move_targets)
        self.schedules = Schedules(self._catalogue, self._partitions, context)
        self.tails = Tails(self._catalogue, self._partitions, clock=self.clock)
        self.searches = Searches(self._catalogue, self._partitions, clock=self.clock, randomness=randomness)
        self.life = MessageLives(
            self._catalogue, self._partitions, self.delays, self.queues, self.streams, clock=self.clock
        )
        self.sampler = self._new_sampler()
        self.trace_collector, self.traces = self._new_traces()
        self._storage_numbers, self.metrics = self._new_collector()
        self._maintenance, self._compactions = self._new_maintenance()
        self.topic_admin.subscribe(self.queues, self.delays, self.streams)
        self.node = NodeStatus(self._new_health(), self._partitions, self.settings.placement, clock=self.clock)
        self._running = False

    def _new_topics(self) -> tuple[Partitions, TopicAdmin]:
        placement = self.settings.placement
        partitions = Partitions(self._storage, clock=self.clock, limits=self.limits, owns=placement.owns_partition)
        auto_create = self.settings.auto_create
        admin = TopicAdmin(self._catalogue, partitions, auto_create=auto_create, is_controller=self._is_controller)
        return partitions, admin

    def _new_publish(self, transactions: ProducerTransactions) -> Publish:
        return Publish(
            self._catalogue, self._partitions, self.delays, transactions, self.producer_contacts, clock=self.clock
        )

    def _new_streams(self, randomness: Randomness) -> Streams:
        context = StreamContext(self.clock, randomness, self.settings.placement)
        return Streams(self.groups, self._catalogue, self._partitions, self.queues, context=context)

    def _new_traces(self) -> tuple[TraceCollector, TraceStore]:
        collector = TraceCollector(self._catalogue, self._partitions, self.queues, self.groups, self.topic_admin)
        return collector, TraceStore(self._catalogue, self._partitions, collector, clock=self.clock)

    def _new_maintenance(self) -> tuple[Maintenance, Compactions]:
        clock, every_seconds = self.clock, self.settings.maintenance_seconds
        settled = SettledRetention(self.groups, self.streams, self.queues, self.settings.placement, clock=clock)
        return (
            Maintenance(
                self._catalogue,
                self._partitions,
                self._producer_ids,
                settled,
                clock=clock,
                every_seconds=every_seconds,
            ),
            Compactions(self._catalogue, self._partitions, clock=clock, every_seconds=every_seconds),
        )

    def _new_queues(self, randomness: Randomness) -> Queues:
        self.dead_letter_mover = mover = DeadLetterMover(
            self._catalogue, self.move_targets, self.topic_admin, groups=self.groups, clock=self.clock
        )
        context = QueueContext(
            self.clock,
            SteadyClock(self.clock),
            randomness,
            self.limits,
            self.settings.delivery_history,
            self.settings.frames or FrameCache(),
        )
        return Queues(self._storage, self._catalogue, self._partitions, self.groups, mover, context)

    def _new_transactions(self, coordinator: Coordinator, frames: JoinedFrames) -> Transactions:
        units = OwnUnits(self._catalogue, self._partitions, self.delays, self.streams, self.queues)
        logs = OwnLogs(self.publishing, self._partitions)
        publishing = TransactionPublishing(coordinator, logs, self._catalogue, clock=self.clock)
        return Transactions(coordinator, publishing, units, frames)

    def _new_sampler(self) -> Sampler:
        backlog = BacklogCounter(
            self._catalogue, self._partitions, self.lag, self.delays, self.transactions, self.dead_letters
        )
        return Sampler(self._catalogue, self._partitions, self.queues, backlog, clock=self.clock)

    def _new_collector(self) -> tuple[StorageNumbers, Collector]:
        storage_numbers = StorageNumbers(self._storage, self.schedules)
        return storage_numbers, Collector(
            [
                TopicNumbers(self._catalogue, self._partitions, self.delays, self.publishing, self._fetch),
                GroupNumbers(self.groups, self.streams, self.queues, self.sampler),
                TransactionNumbers(self.transactions),
                TraceNumbers(self.trace_collector.stats),
                storage_numbers,
                GatewayNumbers(self.sampler.gateways),
            ]
        )

    def _new_health(self) -> Health:
        return Health(
            self._storage,
            self._partitions,
            self.delays,
            self.queues,
            parts={
                "catalogue": self.topic_admin,
                "streams": self.streams,
                "transactions": self.transactions,
                "schedules": self.schedules,
            },
            tasks=[
                *self.metadata.tasks,
                self._maintenance.task,
                self._compactions.task,
                self.queues.task,
                *self.delays.tasks,
                self.streams.task,
                self.transactions.task,
                self.transactions.owner.task,
                self.trace_collector.task,
                *self.sampler.tasks,
            ],
        )

    async def start(self) -> None:
        """Recovers everything and starts to work."""
        began = self.clock.monotonic()
        start_epoch = self._partitions.start_epoch = await self._storage.next_start_epoch()
        leader_epoch = sole_leader_epoch(start_epoch)
        await self.metadata.open(self._storage, leader_epoch)
        await self.topic_admin.open()
        await self.streams.open(self._storage, leader_epoch)
        self._maintenance.start()
        self._compactions.start()
        self._running = True
        groups_lost = self.streams.problem
        if groups_lost is None:
            await self.queues.open()
            await self.streams.catch_up()
        await self.delays.start()
        if groups_lost is None:
            await self.transactions.start(self._storage, leader_epoch, is_coordinator=self._is_controller)
            await self.queues.start()
        else:
            self.transactions.refuse(groups_lost)
        if self._is_controller:
            await self.schedules.start(self._storage, leader_epoch)
        self.trace_collector.start()
        self.topic_admin.resume_removals()
        self._storage_numbers.recovery_seconds = self.clock.monotonic() - began

    async def stop(self) -> None:
        """Refuses new work and finishes what was accepted. The caller that opened the storage closes it."""
        self._running = False
        await self.tails.stop()
        await self.searches.stop()
        await self.redrive_jobs.stop()
        await self.sampler.stop()
        await self.trace_collector.stop()
        await self.topic_admin.stop()
        await self._compactions.stop()
        await self._maintenance.stop()
        await self.schedules.stop()
        await self.transactions.stop()
        await self.delays.stop()
        await self.queues.stop()
        await self.streams.close()
        await self._partitions.close()
        await self.metadata.close()

    @property
    def node_id(self) -> str:
        return self._catalogue.node_id

    # topics

    def topics(self) -> list[Topic]:
        return self._catalogue.topics()

    def topic(self, name: str) -> Topic:
        return self._catalogue.topic(name)

    def partition_workers(self, topic: Topic) -> tuple[int, ...]:
        """Empty: this process owns them all."""
        return ()

    def unit_workers(self, topic: Topic) -> tuple[int, ...]:
        """The workers of the partitions, whether or not clients can connect to them."""
        return self.settings.placement.partition_workers(topic.name, topic.config.partitions)

    async def create_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Returns when messages can be published to the topic."""
        return await self.topic_admin.create(name, settings)

    async def ensure_topic(self, name: str) -> None:
        """Creates the topic of a publish if it does not exist and the settings allow it."""
        await self.topic_admin.ensure(name)

    async def alter_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        """Changes settings while the topic is in use; `partitions` may only grow."""
        return await self.topic_admin.alter(name, settings)

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        """Returns the old and the new number of partitions."""
        return await self.topic_admin.add_partitions(name, count)

    async def delete_topic(self, name: str) -> None:
        """Returns when the topic is gone for everybody, and its files too unless there are very many."""
        await self.topic_admin.delete(name)

    async def purge_topic(self, name: str) -> None:
        """Removes all messages; new ones get the following offsets."""
        await self.topic_admin.purge(name)

    async def compact_topic(
        self, name: str, partitions: Sequence[int] | None = None, *, dry_run: bool = False
    ) -> TopicCompaction:
        """Compacts now, the active segments included."""
        self.check_running()
        return await self._compactions.compact(name, partitions, dry_run=dry_run)

    async def describe(self, name: str) -> TopicDetails:
        topic = self._catalogue.topic(name)
        return await topic_details(topic, self._partitions.owned(topic.id))

    # messages

    def produce(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0, alone: bool = False
    ) -> "asyncio.Future[Appended]":
        self.check_running()
        return self.publishing.frame(topic_id, partition, frame, partition_count=partition_count, alone=alone)

    def begin_publish(self, topic: str, message: NewMessage) -> PublishFuture | QuiverError:
        """Queues one message before it returns. TopicNotFound also where `publish` would create the topic."""
        self.check_running()
        return self.publishing.begin(topic, message)

    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        self.check_running()
        await self.topic_admin.ensure(topic)
        return await self.publishing.messages(topic, messages)

    async def fetch(self, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        self.check_running()
        return await self._fetch.fetch(parts, options)

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        return await self._fetch.find_offset(topic_id, partition, position, read_committed=read_committed)

    async def find_id(self, topic_id: int, partition: int, id: bytes) -> int | None:
        """The offset of the message with an id, within the topic's window."""
        return self._fetch.find_id(topic_id, partition, id)

    async def read_messages(self, topic: str, partition: int, request: BrowseRequest) -> MessagePage:
        return await self._browse.read(self._catalogue.topic(topic), partition, request)

    async def init_producer(self, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        """A new producer id with epoch 0, or the next epoch of a producer's own id unless its epochs are used up."""
        self.check_running()
        if 0 <= producer_id <= HIGHEST and -1 <= epoch < LAST_EPOCH:
            following = await self.transactions.next_epoch(producer_id, epoch)
            if following is None:
                return await self._producer_ids.next_epoch(producer_id, epoch)
            return following.producer_id, following.epoch
        return await self._producer_ids.new(), 0

    async def stats(self) -> BrokerStats:
        topics = [await topic_details(topic, self._partitions.owned(topic.id)) for topic in self.topics()]
        return BrokerStats(self.node.uptime_seconds, topics)

    def check_running(self) -> None:
        if not self._running:
            raise ShuttingDown()
