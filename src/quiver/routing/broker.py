"""The routed broker: the facade of `Broker` in a worker of several. It picks owners and holds no state of its own."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from quiver.broker.broker import Broker
from quiver.broker.stats import BrokerStats
from quiver.links.peers import Peers
from quiver.messages.browse import BrowseRequest, MessagePage
from quiver.messages.fetch import FetchedSlice, FetchOptions, FetchPart
from quiver.messages.publish import Published, PublishFuture
from quiver.model.errors import QuiverError
from quiver.model.message import NewMessage
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.partition.partition import Appended, Frame
from quiver.routing.controller_route import ControllerRoute
from quiver.routing.dead_letters.jobs import RoutedRedriveJobs
from quiver.routing.dead_letters.service import RoutedDeadLetters
from quiver.routing.delays.service import RoutedDelays
from quiver.routing.group_route import GroupRoute
from quiver.routing.groups.service import RoutedGroupAdmin, RoutedReset
from quiver.routing.looks.messages import RoutedLives, RoutedSpans, RoutedTraces
from quiver.routing.looks.node import RoutedNode
from quiver.routing.looks.numbers import OwnNote, RoutedMetrics, SharedNote
from quiver.routing.looks.sampler import RoutedSampler
from quiver.routing.messages.fetch import RoutedFetch
from quiver.routing.messages.service import RoutedMessages
from quiver.routing.outbox.targets import LinkedTargets
from quiver.routing.owned_calls import OwnedCalls
from quiver.routing.owners import Owners
from quiver.routing.polling.service import RoutedPoll, RoutedPollMembers
from quiver.routing.queues.first_use import LinkedQueues
from quiver.routing.queues.looks import QueueUses, RoutedDepths, RoutedLeases, RoutedQueueStats
from quiver.routing.queues.service import RoutedQueues
from quiver.routing.scatter import Scatter
from quiver.routing.schedules.service import RoutedSchedules
from quiver.routing.search.searches import RoutedSearches
from quiver.routing.search.tails import RoutedTails
from quiver.routing.streams.service import RoutedStreams
from quiver.routing.streams.sharing import share_streams
from quiver.routing.topics.other_owners import LinkedOwners
from quiver.routing.topics.service import RoutedTopics
from quiver.routing.transactions.owners import LinkedCoordinator, LinkedTransactionOwners, RoutedLogs
from quiver.routing.transactions.passed_on import PassedOnFrames
from quiver.routing.transactions.service import RoutedTransactions
from quiver.topics.compaction import TopicCompaction
from quiver.topics.details import TopicDetails


class RoutedBroker:
    def __init__(self, local: Broker, peers: Peers, note: SharedNote | None = None) -> None:
        """`note` outlives this process."""
        self._local = local
        self.limits, self.clock, self.settings = local.limits, local.clock, local.settings
        owners, scatter = Owners(local), Scatter(peers)
        calls = OwnedCalls(local, peers)
        controller = ControllerRoute(calls)
        self._topics = RoutedTopics(local, owners, controller, scatter)
        passed_on = PassedOnFrames()
        self._messages = RoutedMessages(local, owners, peers, passed_on)
        passed_on.logs = RoutedLogs(local, owners, peers, self._messages.produce)
        self._fetch = RoutedFetch(local, owners, peers)
        self.near_reads = self._fetch.near
        self.groups = local.groups
        self.life = RoutedLives(local, owners, peers)
        self.traces = RoutedTraces(local, owners, peers, scatter)
        self.queues = RoutedQueues(local, owners, peers)
        uses = QueueUses(local, owners, peers)
        self.queue_depths = RoutedDepths(local, uses, scatter)
        self.queue_leases = RoutedLeases(local, owners, peers, uses, scatter)
        self.queue_stats = RoutedQueueStats(local, scatter)
        self.dead_letters = RoutedDeadLetters(local, owners, calls)
        route = GroupRoute(calls, owners, peers)
        self.group_admin = RoutedGroupAdmin(local, owners, route, scatter)
        self.offset_reset = RoutedReset(route)
        self.streams = RoutedStreams(local, route)
        self.poll = RoutedPoll(local, owners, peers, self.queues)
        self.poll_members = RoutedPollMembers(route)
        self.searches = RoutedSearches(local, owners, peers)
        self.tails = RoutedTails(local, owners, peers)
        self.delays = RoutedDelays(local, owners, calls)
        self.redrive_jobs = RoutedRedriveJobs(controller)
        self.schedules = RoutedSchedules(controller)
        self.transactions = RoutedTransactions(local, peers, passed_on)
        self.metrics = RoutedMetrics(local, scatter, note or OwnNote())
        self.sampler = RoutedSampler(local, scatter)
        self.node = RoutedNode(local, scatter)
        self._share(owners, peers)

    def _share(self, owners: Owners, peers: Peers) -> None:
        """What the parts of the broker ask of other owners themselves."""
        transactions = self._local.transactions
        if owners.placement.is_controller:
            self._local.topic_admin.share_with(LinkedOwners(peers))
            transactions.owners.others = LinkedTransactionOwners(owners, peers)
            transactions.publishing.logs = RoutedLogs(self._local, owners, peers, self._messages.produce)
        else:
            transactions.owner.share_with(LinkedCoordinator(peers))
        share_streams(self._local, owners, peers, self.streams, self.queues)
        self._local.queues.share_with(LinkedQueues(owners, peers))
        self._local.move_targets.others = LinkedTargets(owners, peers)
        self._local.dead_letter_mover.topics = self._topics
        self._local.redrive_jobs.dead_letters = self.dead_letters
        collector = self._local.trace_collector
        collector.target = RoutedSpans(collector.target, self._topics, self._messages, owners)

    @property
    def node_id(self) -> str:
        return self._local.node_id

    # topics

    def topics(self) -> list[Topic]:
        return self._local.topics()

    def topic(self, name: str) -> Topic:
        return self._local.topic(name)

    def partition_workers(self, topic: Topic) -> tuple[int, ...]:
        """Empty where clients cannot connect to the workers themselves."""
        if self.settings.placement.owns_nothing:
            return ()
        return self.unit_workers(topic)

    def unit_workers(self, topic: Topic) -> tuple[int, ...]:
        return self.settings.placement.partition_workers(topic.name, topic.config.partitions)

    async def create_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        return await self._topics.create(name, settings)

    async def ensure_topic(self, name: str) -> None:
        await self._topics.ensure(name)

    async def alter_topic(self, name: str, settings: Mapping[str, Any]) -> Topic:
        return await self._topics.alter(name, settings)

    async def add_partitions(self, name: str, count: int) -> tuple[int, int]:
        return await self._topics.add_partitions(name, count)

    async def delete_topic(self, name: str) -> None:
        await self._topics.delete(name)

    async def purge_topic(self, name: str) -> None:
        await self._topics.purge(name)

    async def compact_topic(
        self, name: str, partitions: Sequence[int] | None = None, *, dry_run: bool = False
    ) -> TopicCompaction:
        return await self._topics.compact(name, partitions, dry_run=dry_run)

    async def describe(self, name: str) -> TopicDetails:
        return await self._topics.describe(name)

    # messages

    def produce(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0, alone: bool = False
    ) -> "asyncio.Future[Appended]":
        return self._messages.produce(topic_id, partition, frame, partition_count=partition_count, alone=alone)

    def begin_publish(self, topic: str, message: NewMessage) -> PublishFuture | QuiverError:
        return self._messages.begin_publish(topic, message)

    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        await self._topics.ensure(topic)
        return await self._messages.publish(topic, messages)

    async def fetch(self, parts: Sequence[FetchPart], options: FetchOptions) -> list[FetchedSlice]:
        return await self._fetch.fetch(parts, options)

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        return await self._messages.find_offset(topic_id, partition, position, read_committed=read_committed)

    async def find_id(self, topic_id: int, partition: int, id: bytes) -> int | None:
        return await self._messages.find_id(topic_id, partition, id)

    async def read_messages(self, topic: str, partition: int, request: BrowseRequest) -> MessagePage:
        return await self._messages.read(topic, partition, request)

    async def init_producer(self, producer_id: int = -1, epoch: int = -1) -> tuple[int, int]:
        return await self._messages.init_producer(producer_id, epoch)

    async def stats(self) -> BrokerStats:
        return await self._topics.stats()
