"""The records of the transaction journal, as MessagePack."""

from typing import Literal, NamedTuple

import msgspec

from quiver.model.transaction import GroupOffsetCommit, LeasedAcks
from quiver.storage.journaled_state import EventCodec

Reason = Literal["request", "timeout", "fenced", "restart"]
"""Why a transaction ended: its producer (or an operator) asked for it; it took too long; another instance took over;
it was open when the broker stopped."""


class Participant(NamedTuple):
    """A log that has frames of a transaction."""

    topic_id: int
    partition: int
    is_schedule: bool = False
    """The partition's delayed messages."""


class ProducerOutcome(msgspec.Struct, frozen=True, array_like=True):
    """The part of a decision that concerns one producer."""

    producer_id: int
    epoch: int
    next_id: int
    """The producer id and epoch from now on. The id is new only if its epochs are used up."""
    next_epoch: int
    participants: list[Participant]
    """The logs that get a marker."""


class Initialized(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A producer begins, or begins again, with an epoch."""

    producer_id: int
    epoch: int
    transactional_id: str | None
    timeout_ms: int
    at_ms: int


class Touched(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The open transaction has offsets or acks, which no partition's log shows."""

    producer_id: int
    epoch: int


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The one record that commits or aborts a transaction."""

    id: int
    commit: bool
    reason: Reason
    at_ms: int
    outcomes: list[ProducerOutcome]
    key: str | None = None
    offsets: list[GroupOffsetCommit] = []
    acks: list[LeasedAcks] = []
    completed: list[int] = []
    """Earlier decisions that are completely applied."""
    description: str | None = None
    """The description that came with the key."""


class MarkersLeft(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Only these are left to do for a decision."""

    id: int
    outcomes: list[ProducerOutcome]


class Completed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """These decisions are completely applied, on disk."""

    ids: list[int]


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Producers that were not used for days."""

    producer_ids: list[int]


Event = Initialized | Touched | Decided | MarkersLeft | Completed | Forgotten

CODEC: EventCodec[Event] = EventCodec(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Event).decode)
