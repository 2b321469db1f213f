"""What is asked of the owner of a stream group."""

from typing import NamedTuple

from quiver.broker.broker import Broker
from quiver.model.names import TopicPartition
from quiver.routing.owned_request import OwnedRequest
from quiver.streams.member import Subscription
from quiver.streams.member_view import MemberView
from quiver.streams.membership import JoinOptions

PartitionOffset = tuple[TopicPartition, int]


class Joining(NamedTuple):
    group: str
    subscription: Subscription
    options: JoinOptions


class Join(OwnedRequest[MemberView], frozen=True):
    capability, method = "streams", "join"
    joining: Joining

    async def carry_out(self, broker: Broker) -> MemberView:
        return await broker.streams.join(*self.joining)


class Heartbeat(OwnedRequest[MemberView], frozen=True):
    capability, method = "streams", "heartbeat"
    group: str
    member_id: str
    generation: int | None
    revoked: frozenset[TopicPartition]
    is_busy: bool

    async def carry_out(self, broker: Broker) -> MemberView:
        return await broker.streams.members.heartbeat(
            self.group, self.member_id, generation=self.generation, revoked=self.revoked, is_busy=self.is_busy
        )


class NextView(OwnedRequest[MemberView], frozen=True):
    capability, method, only_waits = "streams", "next_view", True
    group: str
    view: MemberView
    wait_ms: int

    async def carry_out(self, broker: Broker) -> MemberView:
        return await broker.streams.members.next_view(self.group, self.view, self.wait_ms)


class Leave(OwnedRequest[None], frozen=True):
    capability, method = "streams", "leave"
    group: str
    member_id: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.streams.members.leave(self.group, self.member_id)


class ConnectionLost(OwnedRequest[None], frozen=True):
    """Told."""

    capability, method = "streams", "connection_lost"
    group: str
    member_id: str

    async def carry_out(self, broker: Broker) -> None:
        broker.streams.members.connection_lost(self.group, self.member_id)


class CommitByName(OwnedRequest[None], frozen=True):
    capability, method = "streams", "commit"
    group: str
    offsets: dict[str, dict[int, int]]
    member_id: str | None
    generation: int | None
    metadata: str
    creates: bool

    async def carry_out(self, broker: Broker) -> None:
        await broker.streams.commit(
            self.group,
            self.offsets,
            member_id=self.member_id,
            generation=self.generation,
            metadata=self.metadata,
            creates=self.creates,
        )


class CommitPartitions(OwnedRequest[None], frozen=True):
    capability, method = "streams", "commit_partitions"
    group: str
    offsets: list[tuple[TopicPartition, tuple[int, str]]]
    member_id: str | None
    generation: int | None
    creates: bool

    async def carry_out(self, broker: Broker) -> None:
        await broker.streams.commit_partitions(
            self.group,
            dict(self.offsets),
            member_id=self.member_id,
            generation=self.generation,
            creates=self.creates,
        )


class CommittedOffsets(OwnedRequest[dict[str, dict[int, int]]], frozen=True):
    capability, method = "streams", "committed"
    group: str

    async def carry_out(self, broker: Broker) -> dict[str, dict[int, int]]:
        return await broker.streams.committed(self.group)


class NextOffsets(OwnedRequest[list[PartitionOffset]], frozen=True):
    capability, method = "streams", "next_offsets"
    group: str
    partitions: list[TopicPartition]

    async def carry_out(self, broker: Broker) -> list[PartitionOffset]:
        return list((await broker.streams.next_offsets(self.group, self.partitions)).items())


STREAM_REQUESTS = (
    Join,
    Heartbeat,
    NextView,
    Leave,
    ConnectionLost,
    CommitByName,
    CommitPartitions,
    CommittedOffsets,
    NextOffsets,
)
