"""Stream groups: members that own partitions, and the position of each group. Callers use topic names."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quiver.cluster.placement import ALONE, Placement
from quiver.groups.events import Group
from quiver.groups.service import Groups
from quiver.model.errors import GroupNotEmpty, InvalidRequest, PartitionNotFound, QuiverError, TopicNotFound
from quiver.model.names import TopicPartition
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import Topic
from quiver.queues.service import Queues
from quiver.storage.port import Storage
from quiver.streams.journal.journal import StreamJournal
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.members import Members
from quiver.streams.membership import JoinOptions
from quiver.streams.offsets import Offsets
from quiver.streams.owners.own import OwnGroups, OwnPartitions, OwnQueues
from quiver.streams.owners.owners import StreamOwners
from quiver.streams.owners.prepared_offsets import PreparedOffsets
from quiver.streams.positions import Positions
from quiver.streams.state import StreamGroup
from quiver.streams.stats.activity import StreamActivity
from quiver.system.clock import Clock, SteadyClock
from quiver.system.pace import paced
from quiver.system.randomness import Randomness
from quiver.telemetry.failures import Failures
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.25
_OFFSET_EXPIRY_EVERY_SECONDS = 60.0


class StreamContext(NamedTuple):
    """What stream groups need of the process that they are in."""

    clock: Clock
    randomness: Randomness
    placement: Placement = ALONE


class Streams:
    def __init__(
        self,
        groups: Groups,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        queues: Queues,
        *,
        context: StreamContext,
    ) -> None:
        clock, randomness = context.clock, context.randomness
        self._groups = self.groups = groups
        self._catalogue = catalogue
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._journal = StreamJournal(groups, clock=clock, placement=context.placement)
        self.activity = StreamActivity()
        self._journal.subscribe(self.activity.applied)
        self.members = Members(groups, self._journal, catalogue, clock=clock, randomness=randomness)
        self.own_partitions = OwnPartitions(groups, catalogue, partitions, queues)
        self.owners = StreamOwners(self.own_partitions, OwnGroups(self), OwnQueues(queues))
        self.positions = Positions(self._journal, queues, self.owners)
        self.offsets = Offsets(groups, self._journal, self.members, self.positions, clock=clock)
        self.opened = asyncio.Event()
        """Set when the journal was read."""
        self.prepared = PreparedOffsets(groups, self._journal, self.offsets)
        self._offsets_checked_at = clock.monotonic()
        self.task = PeriodicTask("streams", self._keep_up, every_seconds=_TICK_SECONDS)

    async def open(self, storage: Storage, epoch: int) -> None:
        """Called after the groups are open. If the journal is damaged, `problem` says so."""
        await self._journal.open(storage, epoch)
        self.activity.is_live = True
        self.opened.set()
        if self.problem is None:
            self.members.open(epoch)
            await self.prepared.open()
            self.task.start()

    async def catch_up(self) -> None:
        """Called when the queues of partitions are open: they follow what groups elsewhere have committed meanwhile.
        An owner of groups that does not respond is asked again later."""
        try:
            await self.positions.catch_up()
        except QuiverError as error:
            logger.warning("commits of groups elsewhere are followed later: %s", error)

    async def close(self) -> None:
        """Wakes everybody who waits, and refuses later requests with ShuttingDown."""
        self._journal.begin_close()
        await self.task.stop()
        self.members.close()
        await self._journal.close()

    @property
    def problem(self) -> QuiverError | None:
        """Why stream groups are not available."""
        return self._journal.problem

    def owns(self, group_id: int) -> bool:
        """Whether this process has the members and offsets of a group."""
        return self._journal.owns(group_id)

    def group(self, name: str) -> StreamGroup:
        """Members and offsets; a queue group has none. Raises GroupNotFound."""
        return self._journal.group(name)

    async def join(
        self,
        group: str,
        subscription: Subscription,
        options: JoinOptions = JoinOptions(),  # noqa: B008 - a value
    ) -> MemberView:
        subscription.check()
        for name in subscription.topics:
            self._catalogue.topic(name)
        known = self._topics_known_to(group)
        view = await self.members.join(group, subscription, options)
        if options.start != EARLIEST:
            await self._begin_at(group, self.members.topic_ids(subscription) - known, options.start)
        return view

    # offsets

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        """The next offset to read, by topic and partition."""
        await self.prepared.settled(group)
        found: dict[str, dict[int, int]] = {}
        group_id, partitions = self._groups.group(group).id, list(self.group(group).offsets)
        for partition, known in (await self.positions.of(group_id, partitions)).items():
            name, position = self.topic_name(partition.topic_id), known.shown
            if name is not None and position is not None:
                found.setdefault(name, {})[partition.partition] = position
        return found

    async def next_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where new owners begin: at the group's position, or at the earliest offset in the log. Partitions of topics
        that are gone are left out."""
        await self.prepared.settled(group)
        found = await self.positions.of(self._groups.group(group).id, partitions)
        return {partition: known.next_offset for partition, known in found.items()}

    async def commit(
        self,
        group: str,
        offsets: Mapping[str, Mapping[int, int]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
        metadata: str = "",
        creates: bool = False,
    ) -> None:
        """Commits by topic name; every partition must exist, and no offset may be beyond the end of its log."""
        named: dict[TopicPartition, tuple[int, str]] = {}
        for name, by_partition in offsets.items():
            topic = self._catalogue.topic(name)
            for number, offset in by_partition.items():
                if not 0 <= number < topic.config.partitions:
                    raise PartitionNotFound(topic=name, count=topic.config.partitions, partition=number)
                named[TopicPartition(topic.id, number)] = (offset, metadata)
        await self.commit_partitions(group, named, member_id=member_id, generation=generation, creates=creates)

    async def commit_partitions(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
        creates: bool = False,
    ) -> None:
        """Commits next offsets, with metadata. Messages that members have leased below them are settled. After a
        commit of an earlier offset the group reads again from there, including messages that were acked.

        With `creates`, a commit without a member creates a group that does not exist."""
        await self.check_offsets({partition: offset for partition, (offset, _) in offsets.items()})
        if member_id is not None:
            await self.offsets.commit(group, offsets, member_id=member_id, generation=generation)
            return
        if not creates:
            self._groups.group(group)
        async with self._groups.locks.hold(group):  # not during a reset
            if creates:
                await self._groups.stream_group(group)
            await self.offsets.commit(group, offsets, generation=generation)

    async def check_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises if an offset is beyond the end of its log."""
        ends = await self.owners.partitions.ends(offsets.keys())
        for partition, offset in offsets.items():
            if partition not in ends:
                count = self._catalogue.topic_by_id(partition.topic_id).config.partitions
                raise PartitionNotFound(topic=partition.topic_id, count=count, partition=partition.partition)
            if not 0 <= offset <= ends[partition]:
                where = f"{self.topic_name(partition.topic_id)}-{partition.partition}"
                problem = f"offset {offset} of {where} is not between 0 and the log end {ends[partition]}"
                raise InvalidRequest(problem=problem)

    def topic_name(self, topic_id: int) -> str | None:
        """None when the topic is gone."""
        try:
            return self._catalogue.topic_by_id(topic_id).name
        except QuiverError:
            return None

    def _topics_known_to(self, group: str) -> set[int]:
        """Topics that the group reads or has read."""
        if self._groups.find(group) is None:
            return set()
        known = self.group(group)
        read = set().union(known.offsets, *(member.target for member in known.membership.members.values()))
        return {partition.topic_id for partition in read}

    async def _begin_at(self, group: str, topic_ids: frozenset[int], start: Position) -> None:
        partitions = [partition for topic_id in topic_ids for partition in self.partitions_of(topic_id)]
        await self.offsets.begin_at(group, await self.owners.partitions.find(partitions, start))

    def partitions_of(self, topic_id: int) -> list[TopicPartition]:
        """All partitions of a topic, whoever owns them; none if it is gone."""
        try:
            count = self._catalogue.topic_by_id(topic_id).config.partitions
        except TopicNotFound:
            return []
        return [TopicPartition(topic_id, number) for number in range(count)]

    # what happens to groups and topics

    async def delete(self, name: str) -> None:
        """Deletes a group without members, and its offsets."""
        async with self._groups.locks.hold(name):
            members = self.group(name).membership.members
            if members:
                raise GroupNotEmpty(group=name, members=len(members))
            await self._delete(self._groups.group(name))

    async def _delete(self, group: Group) -> None:
        self._journal.check_open()
        await self._groups.delete(group.name)
        self._journal.forget(group.id)
        self.members.forget(group.id)
        self.activity.forget(group.id)

    async def topic_changed(self, topic: Topic) -> None:
        if self.problem is None:
            await self.members.topic_changed(topic)

    async def topic_purged(self, topic: Topic) -> None:
        """New messages get the following offsets, so commits stay as they are."""

    async def topic_removed(self, topic: Topic) -> None:
        if self.problem is None:
            await self.members.topic_changed(topic)
            await self.offsets.forget_topic(topic.id)

    async def _keep_up(self, failures: Failures) -> None:
        await self.members.expire(failures)
        with failures.of("following changes of topics"):
            await self.members.catch_up()
        with failures.of("following commits of groups elsewhere"):
            await self.positions.catch_up()
        now = self._clock.monotonic()
        if now - self._offsets_checked_at >= _OFFSET_EXPIRY_EVERY_SECONDS:
            self._offsets_checked_at = now
            await self._delete_expired(failures)
        with failures.of("a snapshot of stream groups"):
            await self._journal.snapshot_if_due()

    async def _delete_expired(self, failures: Failures) -> None:
        async for group in paced(list(self._groups.groups().values())):
            if self._has_expired(group) and not self._groups.locks.is_held(group.name):
                with failures.of(f"the end of group {group.name}"):
                    async with self._groups.locks.hold(group.name):
                        if self._groups.find(group.name) is group and self._has_expired(group):
                            logger.info("deleted group %s: unused for longer than offsets_retention", group.name)
                            await self._delete(group)

    def _has_expired(self, group: Group) -> bool:
        """Never of a queue group: it has no offsets that could expire."""
        return (
            group.kind == "stream"
            and self._journal.owns(group.id)
            and self._groups.find(group.name) is group
            and self.group(group.name).has_expired(
                self._steady_clock.earlier_ms(),
                created_at_ms=group.created_at_ms,
                retention_ms=group.settings.offsets_retention_ms,
            )
        )
