"""Stream groups: each call goes to the owner of the group."""

from collections.abc import Iterable, Mapping

from quiver.broker.broker import Broker
from quiver.model.names import TopicPartition
from quiver.routing.group_route import GroupRoute
from quiver.routing.streams.requests import (
    CommitByName,
    CommitPartitions,
    CommittedOffsets,
    ConnectionLost,
    Heartbeat,
    Join,
    Joining,
    Leave,
    NextOffsets,
    NextView,
)
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import JoinOptions


class RoutedMembers:
    def __init__(self, local: Broker, route: GroupRoute) -> None:
        self._local, self._route = local.streams.members, route
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
        return await self._route.ask(name, Heartbeat(name, member_id, generation, revoked, is_busy))

    async def next_view(self, name: str, view: MemberView, wait_ms: int) -> MemberView:
        return await self._route.ask(name, NextView(name, view, wait_ms))

    async def leave(self, name: str, member_id: str) -> None:
        await self._route.call(name, Leave(name, member_id))

    def connection_lost(self, name: str, member_id: str) -> None:
        if self._route.is_own(name):
            self._local.connection_lost(name, member_id)
        else:
            self._route.tell(name, ConnectionLost(name, member_id))


class RoutedStreams:
    def __init__(self, local: Broker, route: GroupRoute) -> None:
        self._local, self._route = local.streams, route
        self.members = RoutedMembers(local, route)

    def topic_name(self, topic_id: int) -> str | None:
        return self._local.topic_name(topic_id)

    async def join(
        self,
        group: str,
        subscription: Subscription,
        options: JoinOptions = JoinOptions(),  # noqa: B008 - a value
    ) -> MemberView:
        return await self._route.call(group, Join(Joining(group, subscription, options)))

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        return await self._route.ask(group, CommittedOffsets(group))

    async def next_offsets(self, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        found = await self._route.ask(group, NextOffsets(group, list(partitions)))
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
        named = {topic: dict(by_partition) for topic, by_partition in offsets.items()}
        await self._route.call(group, CommitByName(group, named, member_id, generation, metadata, creates))

    async def commit_partitions(
        self,
        group: str,
        offsets: Mapping[TopicPartition, tuple[int, str]],
        *,
        member_id: str | None = None,
        generation: int | None = None,
        creates: bool = False,
    ) -> None:
        request = CommitPartitions(group, list(offsets.items()), member_id, generation, creates)
        await self._route.call(group, request)
