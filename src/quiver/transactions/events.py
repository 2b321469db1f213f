"""The records of the transaction journal, as MessagePack."""

from typing import Literal, NamedTuple

import msgspec

from quiver.model.transaction import GroupOffsetCommit, LeasedAcks
from quiver.storage.journaled_state import EventCodec

Reason = Literal["request", "timeout", "fenced", "restart"]
"""Why a transaction ended: its producer (or somebody in its place) asked for it; it took too long; another instance
took over; it was open when the broker stopped."""


class Participant(NamedTuple):
    """A log that has frames of a transaction."""

    topic_id: int
    partition: int
    is_schedule: bool = False
    """The partition's delayed messages."""


class ProducerOutcome(msgspec.Struct, frozen=True, array_like=True):
    """What a decision means for one producer."""

    producer_id: int
    epoch: int
    next_id: int
    """What the producer uses from now on. The id is a new one only when its epochs are used up."""
    next_epoch: int
    participants: list[Participant]
    """Where the decision is to be marked."""


class Initialized(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A producer begins, or begins again, at an epoch."""

    producer_id: int
    epoch: int
    transactional_id: str | None
    timeout_ms: int
    at_ms: int


class Touched(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The open transaction has offsets or acks, of which no partition knows."""

    producer_id: int
    epoch: int


class Decided(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The one record that makes a transaction count, or not."""

    id: int
    commit: bool
    reason: Reason
    at_ms: int
    outcomes: list[ProducerOutcome]
    key: str | None = None
    offsets: list[GroupOffsetCommit] = []
    acks: list[LeasedAcks] = []
    completed: list[int] = []
    """Earlier decisions that need nothing more."""
    description: str | None = None
    """What the key stands for."""


class MarkersLeft(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Of a decision nothing is left to be done but these."""

    id: int
    outcomes: list[ProducerOutcome]


class Completed(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """These decisions need nothing more: everybody knows of them, on disk."""

    ids: list[int]


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Producers that were not used for days."""

    producer_ids: list[int]


Event = Initialized | Touched | Decided | MarkersLeft | Completed | Forgotten

CODEC: EventCodec[Event] = EventCodec(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Event).decode)
