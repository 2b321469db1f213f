"""The records of the journal of stream groups, as JSON. They name a group by its id."""

import msgspec

from quiver.model.names import TopicPartition
from quiver.streams.membership import Membership


class Committed(msgspec.Struct, frozen=True, array_like=True):
    """A group's committed position in a partition. Acks since then are in the partition's queue journal."""

    offset: int
    """The next offset to read."""
    at_ms: int
    metadata: str = ""
    version: int = 1
    """The number of commits, counted when the record is applied; 0: the group began here without a commit."""
    decision: int = 0
    """The latest transaction decision that committed here."""


class MembershipChanged(msgspec.Struct, frozen=True, tag="membership_changed"):
    """The whole membership as it is after the change."""

    group_id: int
    membership: Membership
    at_ms: int


class OffsetsCommitted(msgspec.Struct, frozen=True, tag="offsets_committed"):
    group_id: int
    offsets: list[tuple[TopicPartition, Committed]]
    transaction: int | None = None
    """The decision that they are part of; each decision is applied once."""
    is_first: bool = False
    """They apply only where the group has no position yet."""


class OffsetsForgotten(msgspec.Struct, frozen=True, tag="offsets_forgotten"):
    """The topic is gone."""

    group_id: int
    topic_id: int


class OffsetsPrepared(msgspec.Struct, frozen=True, tag="offsets_prepared"):
    """A transaction that another worker decides commits these: until it has ended, the group does not change."""

    group_id: int
    offsets: list[tuple[TopicPartition, Committed]]
    decision: int


class OffsetsReleased(msgspec.Struct, frozen=True, tag="offsets_released"):
    """That transaction was not committed."""

    group_id: int
    decision: int


Event = MembershipChanged | OffsetsCommitted | OffsetsForgotten | OffsetsPrepared | OffsetsReleased
