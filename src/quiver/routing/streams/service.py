"""Stream groups: each call goes to the owner of the group."""

from collections.abc import Iterable, Mapping

from quiver.broker.broker import Broker
from quiver.model.names import TopicPartition
from quiver.model.position import EARLIEST, Position
from quiver.routing.streams.group_calls import GroupCalls
from quiver.routing.streams.requests import (
    CommitByName,
    CommitPartitions,
    CommittedOffsets,
    ConnectionLost,
    Heartbeat,
    Join,
    Leave,
    NextOffsets,
    NextView,
)
from quiver.streams.assignors import AssignorName
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import Protocol


class RoutedMembers:
    def __init__(self, local: Broker, calls: GroupCalls) -> None:
        self._local, self._calls = local.streams.members, calls
        self.connections = self._local.connections
        """Of this worker: a connection and its members are at the same one."""

    async def heartbeat(
        self,
        name: str,
        member_id: str,
        *,
        generation: int | None = None,
        revoked: frozenset[TopicPartition] = frozenset(),
        is_busy: bool = False,
    ) -> MemberView:
        if self._calls.is_own(name):
            return await self._local.heartbeat(
                name, member_id, generation=generation, revoked=revoked, is_busy=is_busy
            )
        return await self._calls.ask(name, Heartbeat(name, member_id, generation, revoked, is_busy))

    async def next_view(self, name: str, view: MemberView, wait_ms: int) -> MemberView:
        if self._calls.is_own(name):
            return await self._local.next_view(name, view, wait_ms)
        return await self._calls.ask(name, NextView(name, view, wait_ms))

    async def leave(self, name: str, member_id: str) -> None:
        if self._calls.is_own(name):
            await self._local.leave(name, member_id)
        else:
            await self._calls.call(name, Leave(name, member_id))

    def connection_lost(self, name: str, member_id: str) -> None:
        if self._calls.is_own(name):
            self._local.connection_lost(name, member_id)
        else:
            self._calls.tell(name, ConnectionLost(name, member_id))


class RoutedStreams:
    def __init__(self, local: Broker, calls: GroupCalls) -> None:
        self._local, self._calls = local.streams, calls
        self.members = RoutedMembers(local, calls)

    def topic_name(self, topic_id: int) -> str | None:
        return self._local.topic_name(topic_id)

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
        if self._calls.is_own(group):
            return await self._local.join(
                group, subscription, member_id=member_id, protocol=protocol, assignor=assignor, start=start
            )
        return await self._calls.call(group, Join(group, subscription, member_id, protocol, assignor, start))

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        if self._calls.is_own(group):
            return await self._local.committed(group)
        return await self._calls.ask(group, CommittedOffsets(group))

    async def next_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        if self._calls.is_own(group):
            return await self._local.next_offsets(group, partitions)
        found = await self._calls.ask(group, NextOffsets(group, list(partitions)))
        return dict(found)

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
        if self._calls.is_own(group):
            await self._local.commit(
                group, offsets, member_id=member_id, generation=generation, metadata=metadata, creates=creates
            )
            return
        named = {topic: dict(by_partition) for topic, by_partition in offsets.items()}
        await self._calls.call(group, CommitByName(group, named, member_id, generation, metadata, creates))

    async def commit_partitions(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
        creates: bool = False,
    ) -> None:
        if self._calls.is_own(group):
            await self._local.commit_partitions(
                group, offsets, member_id=member_id, generation=generation, creates=creates
            )
            return
        request = CommitPartitions(group, list(offsets.items()), member_id, generation, creates)
        await self._calls.call(group, request)
