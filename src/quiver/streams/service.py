"""Stream groups as gateways use them: with topic names, start positions, lag and resets."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from quiver.groups.assignors import AssignorName
from quiver.groups.live_group import MemberView
from quiver.groups.member import Member, MemberState, Subscription
from quiver.groups.service import GroupService
from quiver.groups.state import GroupStateName, Protocol
from quiver.groups.table import Group
from quiver.messages.position_offset import position_offset
from quiver.model.errors import GroupNotEmpty, InvalidRequest, PartitionNotFound, QuiverError
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import Topic
from quiver.model.topic_partition import TopicPartition
from quiver.partition.partition import Partition
from quiver.queues.depth import PartitionDepth
from quiver.queues.service import Queues
from quiver.records.header import HEADER_BYTES, read_stamped_header
from quiver.system.clock import Clock
from quiver.system.pace import paced
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions


class PartitionLag(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    end_offset: int
    messages: int
    time_ms: int
    """Age of the oldest message that the group has not committed; 0 when there is none."""
    owner: str | None
    metadata: str = ""
    leased: int = 0
    """Held by consumers of a queue group, and so not part of the lag."""
    retrying: int = 0


class MemberDetails(NamedTuple):
    id: str
    client_id: str
    instance_id: str | None
    joined_at_ms: int
    last_heartbeat_ms: int
    partitions: list[tuple[str, int]]
    """What the member may read now."""
    state: MemberState


class GroupSummary(NamedTuple):
    id: str
    kind: str
    state: str
    member_count: int
    generation: int
    topics: list[str]
    lag: int
    """Messages, over all partitions."""
    leased: int = 0
    retrying: int = 0


class GroupDetails(NamedTuple):
    id: str
    kind: str
    state: GroupStateName
    protocol: Protocol
    assignor: AssignorName
    generation: int
    leader_id: str | None
    members: list[MemberDetails]
    partitions: list[PartitionLag]
    settings: dict[str, Any]


class ResetOffset(NamedTuple):
    partition: int
    old: int | None
    new: int


class Groups:
    def __init__(
        self,
        service: GroupService,
        metadata: TopicCatalogue,
        partitions: Partitions,
        *,
        clock: Clock,
        queues: Queues,
    ) -> None:
        self.service = service
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._queues = queues

    async def join(
        self,
        group: str,
        subscription: Subscription,
        *,
        member_id: str | None = None,
        protocol: Protocol = "cooperative",
        assignor: AssignorName | None = None,
        start: Position = EARLIEST,
    ) -> MemberView:
        """Joins; where the group has no position in a topic yet, it begins at `start`."""
        subscription.check()
        for name in subscription.topics:
            self._metadata.topic(name)
        known = self._topics_known_to(group)
        view = await self.service.join(group, subscription, member_id=member_id, protocol=protocol, assignor=assignor)
        if start != EARLIEST:
            await self._begin_at(group, self.service.topic_ids(subscription) - known, start)
        return view

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """The next offset to read, by topic and partition."""
        found: dict[str, dict[int, int]] = {}
        known = self.service.group(group)
        for partition in known.offsets:
            name, position = self.topic_name(partition.topic_id), self._queues.positions.shown(known, partition)
            if name is not None and position is not None:
                found.setdefault(name, {})[partition.partition] = position
        return found

    def next_offset(self, group: str, partition: TopicPartition) -> int:
        """Where a new owner begins: at the group's position, or at the earliest there is."""
        log = self._partitions.get(*partition).log
        position = self._queues.positions.position(self.service.group(group), partition)
        return log.start_offset if position is None else max(position, log.start_offset)

    async def commit(
        self,
        group: str,
        offsets: Mapping[str, Mapping[int, int]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
        metadata: str = "",
    ) -> None:
        """Commits by topic name; every partition must exist and every offset be one that the log has reached."""
        named: dict[TopicPartition, tuple[int, str]] = {}
        for name, by_partition in offsets.items():
            topic = self._metadata.topic(name)
            for number, offset in by_partition.items():
                if not 0 <= number < topic.config.partitions:
                    raise PartitionNotFound(topic=name, count=topic.config.partitions, partition=number)
                named[TopicPartition(topic.id, number)] = (offset, metadata)
        await self.commit_partitions(group, named, member_id=member_id, generation=generation)

    async def commit_partitions(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
    ) -> None:
        """Commits next offsets, with metadata. What members hold below is settled; an offset that lies back is where
        the group goes on, and what was acked behind it comes again."""
        self.check_offsets({partition: offset for partition, (offset, _) in offsets.items()})
        if member_id is not None:
            await self.service.commit(group, offsets, member_id=member_id, generation=generation)
            return
        self.service.group(group)
        async with self.service.holding([group]):  # a reset is not moved from under
            await self.service.commit(group, offsets, generation=generation)

    def check_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Whether each is one that the log has reached."""
        for partition, offset in offsets.items():
            end = self._partitions.get(*partition).committed.high_watermark
            if not 0 <= offset <= end:
                where = f"{self.topic_name(partition.topic_id)}-{partition.partition}"
                raise InvalidRequest(problem=f"offset {offset} of {where} is not one of 0 to {end}")

    async def reset(self, group: str, topic_name: str, to: Position | int, *, dry_run: bool) -> list[ResetOffset]:
        """Moves a group without members in one topic: to a position, or (`to` as an int) by a number of messages.

        One at a time: what it is moved from is what the one before has left.
        """
        topic = self._metadata.topic(topic_name)
        self.service.group(group)
        if dry_run:
            return await self._reset(group, topic, to, dry_run=True)
        async with self.service.holding([group]):
            return await self._reset(group, topic, to, dry_run=False)

    async def _reset(self, group: str, topic: Topic, to: Position | int, *, dry_run: bool) -> list[ResetOffset]:
        members = self.service.group(group).membership.members
        if members and not dry_run:
            raise GroupNotEmpty(group=group, members=len(members))
        if self.service.group(group).kind == "queue":
            return await self._reset_queue(group, topic, to, dry_run=dry_run)
        changes: list[ResetOffset] = []
        async for number, partition in paced(enumerate(self._partitions.of(topic.id))):
            old = self._queues.positions.shown(self.service.group(group), TopicPartition(topic.id, number))
            new = await _resolve(partition, to, old)
            changes.append(ResetOffset(number, old, new))
        if not dry_run:
            new_offsets = {TopicPartition(topic.id, change.partition): (change.new, "") for change in changes}
            self.check_offsets({partition: offset for partition, (offset, _) in new_offsets.items()})
            await self.service.commit(group, new_offsets)
        return changes

    async def _reset_queue(self, group: str, topic: Topic, to: Position | int, *, dry_run: bool) -> list[ResetOffset]:
        if not dry_run:
            self._queues.check_idle(group)
        old = self._queues.settled_offsets(topic, group)
        changes = [
            ResetOffset(number, old.get(number), await _resolve(partition, to, old.get(number)))
            async for number, partition in paced(enumerate(self._partitions.of(topic.id)))
        ]
        if not dry_run:
            await self._queues.rewind(topic, group, {change.partition: change.new for change in changes})
        return changes

    async def lag(self, group: str, *, with_age: bool = True) -> list[PartitionLag]:
        """How far behind the group is in every partition of the topics that it reads or has read from.

        Ages cost a read each.
        """
        state = self.service.group(group)
        if state.kind == "queue":
            return [self._queue_lag(part) for part in await self._queues.depths.of_group(group, with_age=with_age)]
        owners = {p: member.id for member in state.membership.members.values() for p in member.owned}
        found = []
        for topic_id in sorted({partition.topic_id for partition in (*state.offsets, *owners)}):
            name = self.topic_name(topic_id)
            partitions = self._partitions.of(topic_id) if name is not None else []
            async for number, partition in paced(enumerate(partitions)):
                place, log = TopicPartition(topic_id, number), partition.log
                committed, position = state.offsets.get(place), self._queues.positions.shown(state, place)
                at = max(log.start_offset, position or 0)
                behind = max(0, partition.committed.visible_end - at)
                found.append(
                    PartitionLag(
                        name or "",
                        number,
                        position,
                        partition.committed.last_stable,
                        behind,
                        await self._age_ms(partition, at) if with_age and behind else 0,
                        owners.get(place),
                        committed.metadata if committed else "",
                    )
                )
        return found

    def _queue_lag(self, part: PartitionDepth) -> PartitionLag:
        """What is ready counts: what consumers hold is on its way."""
        age_ms = 0 if part.oldest_ms is None else max(0, self._clock.now_ms() - part.oldest_ms)
        ready = sum(part.ready_by_level)
        return PartitionLag(
            part.topic,
            part.partition,
            part.committed,
            part.end_offset,
            ready,
            age_ms,
            None,
            leased=part.leased,
            retrying=part.retrying,
        )

    async def summaries(self, skip: int = 0, limit: int | None = None) -> list[GroupSummary]:
        """The groups by name, or a page of them."""
        names = sorted(self.service.groups())[skip : None if limit is None else skip + limit]
        return [await self._summary(name) async for name in paced(names) if name in self.service.groups()]

    async def _summary(self, name: str) -> GroupSummary:
        group = self.service.group(name)
        lag = await self.lag(name, with_age=False)
        topics = {topic for member in group.membership.members.values() for topic in member.subscription.topics}
        members = self._members(group)
        return GroupSummary(
            name,
            group.kind,
            "stable" if group.kind == "queue" and members else group.membership.state,
            len(members),
            group.membership.generation,
            sorted(topics | {part.topic for part in lag}),
            sum(part.messages for part in lag),
            sum(part.leased for part in lag),
            sum(part.retrying for part in lag),
        )

    async def describe(self, name: str) -> GroupDetails:
        group = self.service.group(name)
        membership = group.membership
        members = self._members(group)
        return GroupDetails(
            name,
            group.kind,
            "stable" if group.kind == "queue" and members else membership.state,
            membership.protocol,
            membership.assignor,
            membership.generation,
            membership.leader_id,
            members,
            await self.lag(name),
            group.settings.settings() | ({"ordering": group.ordering} if group.kind == "queue" else {}),
        )

    async def alter(self, name: str, settings: Mapping[str, Any]) -> None:
        """Changes what can be changed per group; every other name is refused."""
        await self.service.change_settings(name, settings)

    def _members(self, group: Group) -> list[MemberDetails]:
        """The consumers, for a queue group: any of them takes from any partition."""
        if group.kind == "stream":
            return [self._member_details(member) for member in group.membership.members.values()]
        return [
            MemberDetails(name, name, None, consumer.first_seen_ms, consumer.last_seen_ms, [], "none")
            for name, consumer in self._queues.consumers(group.id).items()
        ]

    def _member_details(self, member: Member) -> MemberDetails:
        assigned = sorted(member.assigned)
        names = {topic_id: self.topic_name(topic_id) for topic_id in {part.topic_id for part in assigned}}
        named = ((names[part.topic_id], part.partition) for part in assigned)
        return MemberDetails(
            member.id,
            member.subscription.client_id,
            member.subscription.instance_id,
            member.joined_at_ms,
            self._clock.now_ms() - self.service.silence_ms(member),
            [(topic, partition) for topic, partition in named if topic is not None],
            member.state,
        )

    def topic_name(self, topic_id: int) -> str | None:
        """None when the topic is gone."""
        try:
            return self._metadata.topic_by_id(topic_id).name
        except QuiverError:
            return None

    async def _age_ms(self, partition: Partition, offset: int) -> int:
        if offset >= partition.committed.high_watermark:
            return 0
        try:
            piece = await partition.log.read(offset, max_bytes=1)
        except QuiverError:
            return 0
        if piece is None:
            return 0
        try:
            header = read_stamped_header((await piece.read())[:HEADER_BYTES])
        finally:
            piece.release()
        return max(0, self._clock.now_ms() - header.append_time_ms)

    def _topics_known_to(self, group: str) -> set[int]:
        """Topics that the group reads or has read."""
        known = self.service.groups().get(group)
        if known is None:
            return set()
        read = set().union(known.offsets, *(member.target for member in known.membership.members.values()))
        return {partition.topic_id for partition in read}

    async def _begin_at(self, group: str, topic_ids: frozenset[int], start: Position) -> None:
        first: dict[TopicPartition, int] = {}
        for topic_id in topic_ids:
            async for number, partition in paced(enumerate(self._partitions.of(topic_id))):
                first[TopicPartition(topic_id, number)] = await _resolve(partition, start, None)
        await self.service.begin_at(group, first)


async def _resolve(partition: Partition, to: Position | int, old: int | None) -> int:
    """The offset a reset means, within what the log has."""
    if not isinstance(to, int):
        return await position_offset(partition, to)
    first, last = partition.log.start_offset, partition.committed.last_stable
    return min(max((first if old is None else old) + to, first), last)
