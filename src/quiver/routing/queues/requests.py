"""What is asked of the owners of a topic's partitions about queues."""

from typing import NamedTuple

import msgspec

from quiver.links.request import PeerRequest
from quiver.model.position import Position
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import Receipt, SettleRequest
from quiver.protocol.link_messages import LinkFailure
from quiver.queues.depth import PartitionDepth
from quiver.queues.leases import HeldKey, HeldLease, LeaseCursor, LeasePage
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.queues.stats import Priorities, Reliability


class LeasedRun(NamedTuple):
    """A run that was leased at its owner; the frames of all runs follow as the payload."""

    topic_id: int
    visibility_ms: int
    partition: int
    group_id: int
    lease_id: int
    start: int
    end: int
    attempt: int
    deadline_ms: int
    first_delivered_ms: int
    last_error: str
    length: int


class ReceiveOwned(PeerRequest[list[LeasedRun]], frozen=True):
    """From the partitions that the worker owns. Whoever no longer waits gives back what it has leased."""

    capability, method, only_waits = "queues", "receive", True
    request: ReceiveRequest


class RefusedPart(NamedTuple):
    start: int
    end: int
    failed: LinkFailure
    is_settled: bool


class SettledOwned(NamedTuple):
    refused: list[RefusedPart]
    until_ms: int | None


class SettleOwned(PeerRequest[list[SettledOwned]], frozen=True):
    capability, method = "queues", "settle"
    parts: list[SettleRequest]


class SettledReceipt(NamedTuple):
    failed: LinkFailure | None
    until_ms: int | None
    dlq_topic: str | None
    committed_offset: int | None
    offset_advanced: bool


class SettleReceipts(PeerRequest[list[SettledReceipt]], frozen=True):
    capability, method = "queues", "settle_receipts"
    action: int
    receipts: list[Receipt]
    delay_ms: int | None
    is_counted: bool
    reason: str


class BeginUse(PeerRequest[None], frozen=True):
    """Of the owner of partition 0: a group's first use of the topic."""

    capability, method = "queues", "begin_use"
    topic_id: int
    group: str
    start: Position


class BeginPartitions(PeerRequest[None], frozen=True):
    """Of the others: they begin where the group skips something."""

    capability, method = "queues", "begin_partitions"
    topic_id: int
    group: str
    start: Position


class PauseUse(PeerRequest[None], frozen=True):
    """Of the owner of partition 0, who knows whether the group uses the topic; so is the next."""

    capability, method = "queues", "pause"
    topic: str
    group: str
    reason: str


class ResumeUse(PeerRequest[None], frozen=True):
    capability, method = "queues", "resume"
    topic: str
    group: str


class GroupsUsing(PeerRequest[list[str]], frozen=True):
    """Of the owner of partition 0: the queue groups that have used a topic; or one, or GroupNotFound."""

    capability, method = "queues", "groups_using"
    topic: str
    only: str | None


class OwnedDepths(msgspec.Struct, array_like=True, frozen=True):
    parts: dict[str, list[PartitionDepth]]
    """By group."""
    delayed: int


class DepthsOf(PeerRequest[OwnedDepths], frozen=True):
    capability, method = "queues", "depths"
    topic: str
    groups: list[str]


class LeasesOf(PeerRequest[LeasePage], frozen=True):
    capability, method = "queues", "leases"
    topic: str
    group: str
    limit: int
    after: LeaseCursor | None


class LeasesOfKey(PeerRequest[list[HeldKey]], frozen=True):
    capability, method = "queues", "leases_of_key"
    topic_id: int
    group_id: int
    key: bytes
    with_runs: bool


class LeaseOf(PeerRequest[HeldLease | None], frozen=True):
    capability, method = "queues", "lease"
    topic_id: int
    partition: int
    group_id: int
    lease_id: int


class ReopenKey(PeerRequest[int], frozen=True):
    capability, method = "queues", "reopen"
    topic_id: int
    partition: int
    group: str
    key: bytes
    runs: list[LeveledRun]


class ReliabilityOf(PeerRequest[Reliability], frozen=True):
    capability, method = "queues", "reliability"


class UsingOf(PeerRequest[dict[str, list[int]]], frozen=True):
    """Ids of groups by the topics that they use, of topics whose partition 0 the worker owns."""

    capability, method = "queues", "using"
    only: str | None


class PrioritiesOf(PeerRequest[Priorities], frozen=True):
    capability, method = "queues", "priorities"
    only: str | None
    using: dict[str, list[int]]
