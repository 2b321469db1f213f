"""The records of the timers journal of a partition: how delayed messages left, and the places of those that stay."""

import msgspec
import numpy as np

from quiver.outbox.outbox import Move
from quiver.storage.journaled_state import EventCodec
from quiver.structures.ordered_pairs import Integers


def packed(numbers: Integers) -> bytes:
    return numbers.astype("<i8").tobytes()


def unpacked(data: bytes) -> Integers:
    return np.frombuffer(data, "<i8").astype(np.int64)


class Cancelled(msgspec.Struct, tag=1, array_like=True, frozen=True):
    ids: list[int]


class Left(msgspec.Struct, tag=2, array_like=True, frozen=True):
    """Messages that are due. Numbers are packed as int64."""

    moves: list[Move]
    """Moves into the topic. A move's content is packed by `MoveContent`."""
    expired: bytes
    """Ids of messages that expire before they are due."""
    lost: bytes
    """Ids of messages that could not be read."""


class MoveDone(msgspec.Struct, tag=3, array_like=True, frozen=True):
    id: int


class Relocated(msgspec.Struct, tag=4, array_like=True, frozen=True):
    """Messages were copied to the end of the schedule log."""

    ids: bytes
    places: bytes
    """The places of the copies."""
    times: bytes
    """When each is due, with its priority in the lowest bits."""
    below: int
    """Every message with an id below this was copied, in this event or before."""


class Purged(msgspec.Struct, tag=5, array_like=True, frozen=True):
    below: int
    """Every message with an id below this is gone."""


class Rescheduled(msgspec.Struct, tag=6, array_like=True, frozen=True):
    """Messages are due at another time than the schedule log says."""

    ids: bytes
    deliver_at_ms: int


DelayEvent = Cancelled | Left | MoveDone | Relocated | Purged | Rescheduled

CODEC: EventCodec[DelayEvent] = EventCodec(
    msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(DelayEvent).decode
)


class MoveContent(msgspec.Struct, frozen=True):
    """The messages of a move, and their places."""

    ids: Integers
    places: Integers
    times_ms: Integers

    def columns(self) -> tuple[Integers, Integers, Integers]:
        return self.ids, self.places, self.times_ms

    def pack(self, *, is_rescheduled: bool) -> list[bytes]:
        """Messages that are at their id need nothing else, unless some were rescheduled: their times are in the
        schedule log."""
        if not is_rescheduled and np.array_equal(self.ids, self.places):
            return [packed(self.ids)]
        return [packed(self.ids), packed(self.places), packed(self.times_ms)]

    @classmethod
    def unpack(cls, content: list[bytes]) -> "MoveContent":
        ids = unpacked(content[0])
        if len(content) == 1:
            return cls(ids, ids, np.full(len(ids), -1, np.int64))
        return cls(ids, unpacked(content[1]), unpacked(content[2]))
