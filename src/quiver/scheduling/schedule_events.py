"""What can happen to recurring schedules: the records of their journal, as MessagePack."""

import msgspec

from quiver.model.schedule import Schedule
from quiver.moves.outbox import Move


class ScheduleSet(msgspec.Struct, frozen=True, tag="set"):
    """A new schedule, or an old one changed."""

    schedule: Schedule
    next_ms: int | None


class ScheduleRemoved(msgspec.Struct, frozen=True, tag="removed"):
    name: str


class Fired(msgspec.Struct, frozen=True, tag="fired"):
    """The schedule's turn is over. From here on the message is on its way, or it is known why there is none."""

    name: str
    at_ms: int
    next_ms: int | None
    move: Move | None
    error: str = ""


class FiringEnded(msgspec.Struct, frozen=True, tag="ended"):
    name: str
    move_id: int
    error: str = ""
    """Why the message could not go where it should; empty when it is there."""


Event = ScheduleSet | ScheduleRemoved | Fired | FiringEnded
EVENT = msgspec.msgpack.Decoder(Event)
EVENT_ENCODER = msgspec.msgpack.Encoder()
