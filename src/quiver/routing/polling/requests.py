"""What is asked for members that poll: of the owner of their group, and by that owner of owners of partitions."""

from typing import NamedTuple

from quiver.broker.broker import Broker
from quiver.links.request import PeerRequest
from quiver.model.names import TopicPartition
from quiver.protocol.link_messages import LinkFailure
from quiver.routing.owned_request import OwnedRequest
from quiver.routing.queues.requests import LeasedRun
from quiver.routing.streams.requests import Joining
from quiver.streams.member_view import MemberView
from quiver.streams.owners.port import Commit
from quiver.streams.poll.members import MemberUpdate

# of the owner of a group


class JoinPolling(OwnedRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "join"
    joining: Joining

    async def carry_out(self, broker: Broker) -> MemberUpdate:
        return await broker.poll_members.join(*self.joining)


class PollingHeartbeat(OwnedRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "heartbeat"
    group: str
    member_id: str
    generation: int | None
    tell: bool

    async def carry_out(self, broker: Broker) -> MemberUpdate:
        return await broker.poll_members.heartbeat(self.group, self.member_id, self.generation, tell=self.tell)


class Revoke(OwnedRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "revoke"
    group: str
    member_id: str
    partitions: frozenset[TopicPartition]
    generation: int | None

    async def carry_out(self, broker: Broker) -> MemberUpdate:
        return await broker.poll_members.revoke(self.group, self.member_id, self.partitions, self.generation)


class LeavePolling(OwnedRequest[None], frozen=True):
    capability, method = "polling", "leave"
    group: str
    member_id: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.poll_members.leave(self.group, self.member_id)


class AssignmentOf(OwnedRequest[MemberView], frozen=True):
    capability, method = "polling", "assignment"
    group: str
    member_id: str

    async def carry_out(self, broker: Broker) -> MemberView:
        return await broker.poll_members.assignment(self.group, self.member_id)


class ToldTo(OwnedRequest[MemberView | None], frozen=True):
    capability, method = "polling", "told"
    group: str
    member_id: str

    async def carry_out(self, broker: Broker) -> MemberView | None:
        return await broker.poll_members.told(self.group, self.member_id)


POLL_MEMBER_REQUESTS = (JoinPolling, PollingHeartbeat, Revoke, LeavePolling, AssignmentOf, ToldTo)


class PolledPart(NamedTuple):
    """The next of the runs that go with it."""

    topic_id: int
    partition: int
    run_count: int
    next_offset: int | None


class PolledParts(NamedTuple):
    """Their frames are the payload."""

    parts: list[PolledPart]
    runs: list[LeasedRun]


class PollFor(PeerRequest[PolledParts], frozen=True):
    capability, method, only_waits = "polling", "poll", True
    group: str
    member_id: str
    timeout_ms: int
    limit: int


# of the owner of partitions


class AskedPart(NamedTuple):
    partition: TopicPartition
    ends_own: bool
    commit: Commit | None


class TakenParts(NamedTuple):
    polled: PolledParts
    reached: list[TopicPartition]
    problem: LinkFailure | None


class TakeForMember(PeerRequest[TakenParts], frozen=True):
    """Refused if a higher generation of the group has been seen."""

    capability, method, only_waits = "polling", "take", True
    group: str
    member_id: str
    generation: int
    parts: list[AskedPart]
    limit: int
    max_bytes: int


class AwaitNews(PeerRequest[None], frozen=True):
    """Returns when one of the partitions may have something for the group."""

    capability, method, only_waits = "polling", "await_news", True
    group_id: int
    partitions: list[TopicPartition]
