"""Members that poll: each call goes to the owner of the group, which asks the owners of its partitions."""

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import Reply
from quiver.model.names import TopicPartition
from quiver.routing.group_route import GroupRoute
from quiver.routing.late_results import call_leasing
from quiver.routing.owners import Owners
from quiver.routing.polling.polled_parts import all_received, polled_of
from quiver.routing.polling.requests import (
    AssignmentOf,
    JoinPolling,
    LeavePolling,
    PolledParts,
    PollFor,
    PollingHeartbeat,
    Revoke,
    ToldTo,
)
from quiver.routing.queues.service import RoutedQueues
from quiver.routing.streams.requests import Joining
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import JoinOptions
from quiver.streams.owners.port import PolledPartition
from quiver.streams.poll.members import MemberUpdate


class RoutedPollMembers:
    def __init__(self, route: GroupRoute) -> None:
        self._route = route

    async def join(
        self,
        group: str,
        subscription: Subscription,
        options: JoinOptions = JoinOptions(),  # noqa: B008 - a value
    ) -> MemberUpdate:
        return await self._route.call(group, JoinPolling(Joining(group, subscription, options)))

    async def heartbeat(self, group: str, member_id: str, generation: int | None, *, tell: bool) -> MemberUpdate:
        return await self._route.ask(group, PollingHeartbeat(group, member_id, generation, tell))

    async def revoke(
        self, group: str, member_id: str, partitions: frozenset[TopicPartition], generation: int | None
    ) -> MemberUpdate:
        return await self._route.call(group, Revoke(group, member_id, partitions, generation))

    async def leave(self, group: str, member_id: str) -> None:
        await self._route.call(group, LeavePolling(group, member_id))

    async def assignment(self, group: str, member_id: str) -> MemberView:
        return await self._route.ask(group, AssignmentOf(group, member_id))

    async def told(self, group: str, member_id: str) -> MemberView | None:
        return await self._route.ask(group, ToldTo(group, member_id))


class RoutedPoll:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, queues: RoutedQueues) -> None:
        self._local, self._catalogue = local, local.metadata.catalogue
        self._owners, self._peers, self._queues = owners, peers, queues

    async def poll(self, group: str, member_id: str, *, timeout_ms: int, limit: int) -> list[PolledPartition]:
        worker = self._owners.placement.group_worker(group)
        if worker == self._owners.worker:
            return await self._local.poll.poll(group, member_id, timeout_ms=timeout_ms, limit=limit)
        request = PollFor(group, member_id, timeout_ms, limit)
        reply = await call_leasing(self._peers, worker, request, self._on_late)
        return polled_of(reply.value, reply.payload, self._catalogue)

    def _on_late(self, reply: Reply[PolledParts]) -> None:
        polled = polled_of(reply.value, reply.payload, self._catalogue)
        self._queues.give_back_later(all_received(polled))
