"""The records of the journal of producers, as JSON."""

import msgspec

from quiver.storage.journaled_state import EventCodec


class EpochGiven(msgspec.Struct, frozen=True, tag="epoch_given"):
    """The producer of an id may use this epoch, and those before it."""

    producer_id: int
    epoch: int


CODEC: EventCodec[EpochGiven] = EventCodec(msgspec.json.encode, msgspec.json.Decoder(EpochGiven).decode)
