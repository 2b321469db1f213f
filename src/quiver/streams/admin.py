"""Groups of both kinds for people and tools: list, describe, change, delete."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from quiver.groups.events import Group
from quiver.groups.service import Groups
from quiver.queues.service import Queues
from quiver.streams.assignors import AssignorName
from quiver.streams.lag import GroupLag, PartitionLag
from quiver.streams.member import Member, MemberState
from quiver.streams.membership import GroupStateName, Membership, Protocol
from quiver.streams.service import Streams
from quiver.system.clock import Clock
from quiver.system.pace import paced


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
    """The sum of messages over all partitions."""
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


class GroupAdmin:
    def __init__(self, groups: Groups, streams: Streams, queues: Queues, lag: GroupLag, *, clock: Clock) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._lag = lag
        self._clock = clock

    async def summaries(self, skip: int = 0, limit: int | None = None) -> list[GroupSummary]:
        """The groups by name, or a page of them."""
        names = sorted(self._groups.groups())[skip : None if limit is None else skip + limit]
        return [await self._summary(name) async for name in paced(names) if name in self._groups.groups()]

    async def _summary(self, name: str) -> GroupSummary:
        group, membership = self._groups.group(name), self._streams.group(name).membership
        lag = await self._lag.of(name, with_age=False)
        topics = {topic for member in membership.members.values() for topic in member.subscription.topics}
        members = self._members(group)
        return GroupSummary(
            name,
            group.kind,
            "stable" if group.kind == "queue" and members else membership.state,
            len(members),
            membership.generation,
            sorted(topics | {part.topic for part in lag}),
            sum(part.messages for part in lag),
            sum(part.leased for part in lag),
            sum(part.retrying for part in lag),
        )

    async def describe(self, name: str) -> GroupDetails:
        group, membership = self._groups.group(name), self._streams.group(name).membership
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
            await self._lag.of(name),
            group.settings.settings() | ({"ordering": group.ordering} if group.kind == "queue" else {}),
        )

    async def counts(self, topic_ids: Collection[int]) -> dict[int, int]:
        """How many groups read each of the topics, or have read it."""
        return {topic_id: len(groups) for topic_id, groups in (await self.readers(topic_ids)).items()}

    async def readers(self, topic_ids: Collection[int]) -> dict[int, set[str]]:
        """The groups that read each of the topics, or have read it, as far as this process has them."""
        readers = {topic_id: set(self._queues.depths.groups_of(topic_id)) for topic_id in topic_ids}
        async for group in paced(list(self._groups.groups().values())):
            if group.kind == "stream" and self._streams.owns(group.id) and group.name in self._groups.groups():
                state = self._streams.group(group.name)
                owned = (place for member in state.membership.members.values() for place in member.owned)
                for topic_id in {place.topic_id for place in (*state.offsets, *owned)} & readers.keys():
                    readers[topic_id].add(group.name)
        return readers

    async def membership(self, name: str) -> Membership:
        """The members of a stream group and its rebalances, read-only; a queue group has none."""
        return self._streams.group(name).membership

    async def alter(self, name: str, settings: Mapping[str, Any]) -> None:
        """Changes settings of a group; unknown names are refused."""
        await self._groups.change_settings(name, settings)

    async def delete(self, name: str) -> None:
        """Deletes a group without members, and its positions in every topic."""
        group_id = self._groups.group(name).id
        await self._streams.owners.queues.check_idle(name)
        await self._streams.delete(name)
        await self._streams.owners.queues.group_deleted(group_id)

    async def leave_topic(self, name: str, topic: str) -> None:
        """A queue group forgets where it is in a topic, and begins again with its next receive."""
        await self._queues.leave(topic, name)

    def _members(self, group: Group) -> list[MemberDetails]:
        """The consumers of a queue group; each of them receives from all partitions."""
        if group.kind == "stream":
            members = self._streams.group(group.name).membership.members
            return [self._member_details(member) for member in members.values()]
        return [
            MemberDetails(name, name, None, consumer.first_seen_ms, consumer.last_seen_ms, [], "none")
            for name, consumer in self._queues.consumers(group.id).items()
        ]

    def _member_details(self, member: Member) -> MemberDetails:
        assigned = sorted(member.assigned)
        names = {topic_id: self._streams.topic_name(topic_id) for topic_id in {part.topic_id for part in assigned}}
        named = ((names[part.topic_id], part.partition) for part in assigned)
        return MemberDetails(
            member.id,
            member.subscription.client_id,
            member.subscription.instance_id,
            member.joined_at_ms,
            self._clock.now_ms() - self._streams.members.silence_ms(member),
            [(topic, partition) for topic, partition in named if topic is not None],
            member.state,
        )
