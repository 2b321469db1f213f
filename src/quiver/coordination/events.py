"""The records of the coordination journal, as MessagePack: values stay the bytes that they are."""

import msgspec

from quiver.coordination.port import Expected, Operation
from quiver.storage.journaled_state import EventCodec


class Proposed(msgspec.Struct, frozen=True, array_like=True, tag="proposed"):
    """A transaction. Whether it succeeds is decided when it is applied, after all that were written before it."""

    number: int
    """Who waits for it, in the process that wrote it."""
    expected: list[Expected]
    operations: list[Operation]


class LeaseGranted(msgspec.Struct, frozen=True, array_like=True, tag="lease_granted"):
    number: int
    ttl_ms: int


class LeaseEnded(msgspec.Struct, frozen=True, array_like=True, tag="lease_ended"):
    number: int
    lease_id: int


Event = Proposed | LeaseGranted | LeaseEnded

CODEC: EventCodec[Event] = EventCodec(msgspec.msgpack.encode, msgspec.msgpack.Decoder(Event).decode)
