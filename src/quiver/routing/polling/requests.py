"""What is asked for members that poll: of the owner of their group, and by that owner of owners of partitions."""

from typing import NamedTuple

from quiver.links.request import PeerRequest
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.protocol.link_messages import LinkFailure
from quiver.routing.queues.requests import LeasedRun
from quiver.streams.assignors import AssignorName
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import Protocol
from quiver.streams.owners.port import Commit
from quiver.streams.poll.members import MemberUpdate

# of the owner of a group


class JoinPolling(PeerRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "join"
    group: str
    subscription: Subscription
    member_id: str | None
    protocol: Protocol
    assignor: AssignorName | None
    start: Position


class PollingHeartbeat(PeerRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "heartbeat"
    group: str
    member_id: str
    generation: int | None
    tell: bool


class Revoke(PeerRequest[MemberUpdate], frozen=True):
    capability, method = "polling", "revoke"
    group: str
    member_id: str
    partitions: frozenset[TopicPartition]
    generation: int | None


class LeavePolling(PeerRequest[None], frozen=True):
    capability, method = "polling", "leave"
    group: str
    member_id: str


class AssignmentOf(PeerRequest[MemberView], frozen=True):
    capability, method = "polling", "assignment"
    group: str
    member_id: str


class ToldTo(PeerRequest[MemberView | None], frozen=True):
    capability, method = "polling", "told"
    group: str
    member_id: str


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
