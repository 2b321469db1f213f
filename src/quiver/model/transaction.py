"""What a transaction consists of, and how it is named.

The transaction journal and the native protocol both encode these structs as arrays of their fields. A field may be
added at the end with a default; for any other change of a message the protocol gets a struct of its own, so that a
change of the wire format never changes the format on disk.
"""

from typing import NamedTuple

import msgspec

DEFAULT_TIMEOUT_MS = 60_000


class ProducerKey(msgspec.Struct, array_like=True, frozen=True):
    """Also names a transaction: the epoch rises with each one."""

    producer_id: int
    epoch: int


class CommitPart(msgspec.Struct, array_like=True, frozen=True):
    """The next offset of a group in one partition."""

    topic_id: int
    partition: int
    offset: int
    metadata: str = ""


class GroupOffsetCommit(msgspec.Struct, array_like=True, frozen=True):
    """The offsets that a stream group commits with the transaction."""

    group: str
    offsets: list[CommitPart]
    member_id: str | None = None
    """None for tools; then the group must have no members."""
    generation: int | None = None


class LeasedAcks(msgspec.Struct, array_like=True, frozen=True):
    """Messages of one lease that are acknowledged with the transaction."""

    topic_id: int
    partition: int
    group_id: int
    lease_id: int
    runs: list[tuple[int, int]]
    """Offsets, as half-open ranges."""


class ProducerInfo(NamedTuple):
    """A transactional producer, and how its last transaction ended."""

    producer_id: int
    transactional_id: str | None
    epoch: int
    """The current one: whoever comes with a lower one is fenced."""
    used_at_ms: int
    timeout_ms: int
    is_open: bool
    """It has a transaction now."""
    last_epoch: int | None
    """Of the transaction that was decided last."""
    last_committed: bool
    last_decided_at_ms: int


class TransactionInfo(msgspec.Struct, array_like=True, frozen=True):
    transaction_id: str
    """`producer id:epoch`."""
    transactional_id: str | None
    producer_id: int
    epoch: int
    state: str
    """empty (the producer has begun none), open, committing, aborting, committed, aborted."""
    started_at_ms: int
    timeout_ms: int
    partitions: list[tuple[str, int]]
    """Topic and partition of its messages; once it is decided, those without a marker yet."""
    groups: list[str]
    """Groups whose offsets or acks are part of it."""
