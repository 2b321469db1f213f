"""What is asked of the owner of a stream group."""

from quiver.links.request import PeerRequest
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.streams.assignors import AssignorName
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import Protocol

PartitionOffset = tuple[TopicPartition, int]


class Join(PeerRequest[MemberView], frozen=True):
    capability, method = "streams", "join"
    group: str
    subscription: Subscription
    member_id: str | None
    protocol: Protocol
    assignor: AssignorName | None
    start: Position


class Heartbeat(PeerRequest[MemberView], frozen=True):
    capability, method = "streams", "heartbeat"
    group: str
    member_id: str
    generation: int | None
    revoked: frozenset[TopicPartition]
    is_busy: bool


class NextView(PeerRequest[MemberView], frozen=True):
    capability, method, only_waits = "streams", "next_view", True
    group: str
    view: MemberView
    wait_ms: int


class Leave(PeerRequest[None], frozen=True):
    capability, method = "streams", "leave"
    group: str
    member_id: str


class ConnectionLost(PeerRequest[None], frozen=True):
    """Told."""

    capability, method = "streams", "connection_lost"
    group: str
    member_id: str


class CommitByName(PeerRequest[None], frozen=True):
    capability, method = "streams", "commit"
    group: str
    offsets: dict[str, dict[int, int]]
    member_id: str | None
    generation: int | None
    metadata: str
    creates: bool


class CommitPartitions(PeerRequest[None], frozen=True):
    capability, method = "streams", "commit_partitions"
    group: str
    offsets: list[tuple[TopicPartition, tuple[int, str]]]
    member_id: str | None
    generation: int | None
    creates: bool


class CommittedOffsets(PeerRequest[dict[str, dict[int, int]]], frozen=True):
    capability, method = "streams", "committed"
    group: str


class NextOffsets(PeerRequest[list[PartitionOffset]], frozen=True):
    capability, method = "streams", "next_offsets"
    group: str
    partitions: list[TopicPartition]
