"""Groups of both kinds for people and tools: list, describe, change, delete."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from quiver.groups.events import Group
from quiver.groups.service import Groups
from quiver.queues.service import Queues
from quiver.streams.assignors import AssignorName
from quiver.streams.member import Member, MemberState
from quiver.streams.membership import GroupStateName, Membership, Protocol
from quiver.streams.service import Streams
from quiver.streams.stats.lag import GroupLag, PartitionLag
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


class GroupPart(NamedTuple):
    """What one process knows of a group: of a queue group, what concerns its own partitions."""

    summary: GroupSummary
    members: list[str]


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


UsedTopics = Mapping[str, Collection[int]]
"""By the name of a queue group, the ids of topics."""


class GroupAdmin:
    def __init__(self, groups: Groups, streams: Streams, queues: Queues, lag: GroupLag, *, clock: Clock) -> None:
        self._groups = groups
        self._streams = streams
        self._queues = queues
        self._lag = lag
        self._clock = clock

    async def summaries(self, skip: int = 0, limit: int | None = None) -> list[GroupSummary]:
        """The groups by name, or a page of them."""
        return [part.summary for part in await self.parts(self.names(skip, limit))]

    def names(self, skip: int, limit: int | None) -> list[str]:
        return sorted(self._groups.groups())[skip : None if limit is None else skip + limit]

    async def used_topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        """The ids of the topics that queue groups have used, as far as this process knows."""
        depths, found = self._queues.depths, dict[str, list[int]]()
        async for name in paced(names):
            group = self._groups.find(name)
            if group is not None and group.kind == "queue":
                found[name] = depths.topics_of(name)
        return found

    async def parts(self, names: Iterable[str], used: UsedTopics | None = None) -> list[GroupPart]:
        """What this process knows of those groups that are still there; not of stream groups of another one."""
        found = []
        async for name in paced(names):
            group = self._groups.find(name)
            if group is not None and (group.kind == "queue" or self._streams.owns(group.id)):
                found.append(await self._part(group, None if used is None else used.get(name, ())))
        return found

    async def _part(self, group: Group, used: Collection[int] | None) -> GroupPart:
        membership, members = self._membership(group), self._members(group)
        lag = await self._lag.of(group.name, with_age=False, used=used)
        topics = {topic for member in membership.members.values() for topic in member.subscription.topics}
        summary = GroupSummary(
            group.name,
            group.kind,
            "stable" if group.kind == "queue" and members else membership.state,
            len(members),
            membership.generation,
            sorted(topics | {part.topic for part in lag}),
            sum(part.messages for part in lag),
            sum(part.leased for part in lag),
            sum(part.retrying for part in lag),
        )
        return GroupPart(summary, [member.id for member in members])

    async def describe(self, name: str, used: UsedTopics | None = None) -> GroupDetails:
        group = self._groups.group(name)
        membership, members = self._membership(group), self._members(group)
        return GroupDetails(
            name,
            group.kind,
            "stable" if group.kind == "queue" and members else membership.state,
            membership.protocol,
            membership.assignor,
            membership.generation,
            membership.leader_id,
            members,
            await self._lag.of(name, used=None if used is None else used.get(name, ())),
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
        return self._membership(self._groups.group(name))

    def _membership(self, group: Group) -> Membership:
        return Membership() if group.kind == "queue" else self._streams.group(group.name).membership

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


def merged_summary(parts: Sequence[GroupPart]) -> GroupSummary:
    """Of one group, from what several processes know of it."""
    first = parts[0].summary
    members = {member for part in parts for member in part.members}
    return first._replace(
        state="stable" if first.kind == "queue" and members else first.state,
        member_count=len(members),
        topics=sorted({topic for part in parts for topic in part.summary.topics}),
        lag=sum(part.summary.lag for part in parts),
        leased=sum(part.summary.leased for part in parts),
        retrying=sum(part.summary.retrying for part in parts),
    )


def merged_details(parts: Sequence[GroupDetails]) -> GroupDetails:
    """Of a queue group."""
    members: dict[str, MemberDetails] = {}
    for member in (member for part in parts for member in part.members):
        known = members.get(member.id, member)
        members[member.id] = member._replace(
            joined_at_ms=min(member.joined_at_ms, known.joined_at_ms),
            last_heartbeat_ms=max(member.last_heartbeat_ms, known.last_heartbeat_ms),
        )
    return parts[0]._replace(
        state="stable" if members else parts[0].state,
        members=list(members.values()),
        partitions=sorted(
            (lag for part in parts for lag in part.partitions), key=lambda lag: (lag.topic, lag.partition)
        ),
    )
