"""Requests and responses of queue groups."""

import msgspec

from quiver.model.position import Position
from quiver.model.settlement import SettleRequest
from quiver.protocol.message import Message


class Receive(Message, tag=40, frozen=True):
    """Leases messages; waits up to `wait_ms` while there is nothing to be had."""

    topic_ids: list[int]
    group: str
    consumer: str = ""
    """Whom the group's max_unacked is counted for; empty: the connection."""
    max_messages: int = 100
    max_bytes: int = 8 * 1024 * 1024
    wait_ms: int = 0
    visibility_ms: int | None = None
    """How long the lease lasts; None: as the group is set."""
    ordering: str | None = None
    priority: int | None = None
    """This level only."""
    start: Position | None = None
    """Where the group begins, where it has no position yet; None: earliest."""


class Settle(Message, tag=41, frozen=True):
    parts: list[SettleRequest]


class DescribeQueues(Message, tag=42, frozen=True):
    topic: str
    group: str | None = None
    """None: every queue group that has used the topic."""


class PauseQueue(Message, tag=43, frozen=True):
    """The group gets nothing from the topic until it is resumed."""

    topic: str
    group: str
    reason: str = ""


class ResumeQueue(Message, tag=44, frozen=True):
    topic: str
    group: str


QueueRequest = Receive | Settle | DescribeQueues | PauseQueue | ResumeQueue


class ReceivedRun(msgspec.Struct, array_like=True, frozen=True):
    """Messages with the same history. Payload: a stamped frame each, with just these messages, in this order."""

    topic_id: int
    partition: int
    group_id: int
    lease_id: int
    start: int
    end: int
    """Behind the last offset. Offsets in between may be missing."""
    attempt: int
    deadline_ms: int
    """When the lease ends, by the broker's clock."""
    visibility_ms: int
    """How long the lease lasts."""
    first_delivered_ms: int
    last_error: str
    length: int
    """Bytes of payload."""


class Received(Message, tag=140, frozen=True):
    runs: list[ReceivedRun]
    max_unacked: tuple[int, ...] = ()
    """What the consumer may hold of each topic of the request, over all workers: for clients that named the worker in
    their handshake. They count that, because each worker knows only what the consumer holds of its own partitions."""


class RefusedRun(msgspec.Struct, array_like=True, frozen=True):
    start: int
    end: int
    code: str
    message: str
    retryable: bool = False
    is_settled: bool = False
    """Of a repeat: the group is done with these messages, so the first request has arrived."""


class SettledPart(msgspec.Struct, array_like=True, frozen=True):
    """What became of a part: whatever is not refused is done and on disk."""

    refused: list[RefusedRun]
    until_ms: int | None = None
    """nack: when the first of the messages comes again; extend: when the lease ends."""


class Settled(Message, tag=141, frozen=True):
    parts: list[SettledPart]
    """In the order of the request."""


class QueueDepth(msgspec.Struct, array_like=True, frozen=True):
    """How much a group has before it in a topic."""

    group: str
    ready: int
    """Can be received now."""
    ready_by_priority: list[int]
    """Five numbers, critical first."""
    leased: int
    retrying: int
    """Given back, and not due yet."""
    delayed: int
    dead: int
    oldest_age_ms: int
    """Of the oldest message that is not settled; 0 when there is none."""
    blocked_keys: list[tuple[bytes, int]]
    """In groups ordered by key: keys whose messages wait behind one that is leased or retried, and how many."""
    consumers: dict[str, int]
    """How many messages each holds."""
    paused_since_ms: int | None = None
    """Set while the group gets nothing from the topic."""
    pause_reason: str = ""
    blocked: int = 0
    """In groups ordered by key: messages that wait for an earlier one of their key."""


class QueueDepths(Message, tag=142, frozen=True):
    queues: list[QueueDepth]
    """By group."""


QueueResponse = Received | Settled | QueueDepths
