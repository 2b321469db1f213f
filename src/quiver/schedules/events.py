"""What can happen to recurring schedules: the records of their journal, as MessagePack."""

import msgspec

from quiver.model.schedule import Schedule
from quiver.outbox.outbox import Move
from quiver.storage.journaled_state import EventCodec


class ScheduleSet(msgspec.Struct, frozen=True, tag="set"):
    """A new schedule, or an old one changed."""

    schedule: Schedule
    next_ms: int | None


class ScheduleRemoved(msgspec.Struct, frozen=True, tag="removed"):
    name: str


class Turn(msgspec.Struct, frozen=True, array_like=True):
    """The turn of one schedule."""

    name: str
    at_ms: int
    next_ms: int | None
    error: str = ""
    """Why there is no message; empty if there is one."""


class Fired(msgspec.Struct, frozen=True, tag="fired"):
    """Some schedules have fired. Their messages are sent by moves, many in a move."""

    turns: list[Turn]
    moves: list[Move]


class FiringEnded(msgspec.Struct, frozen=True, tag="ended"):
    move_id: int
    error: str = ""
    """Why the messages could not be appended; empty if they were."""
    schedules: list[str] = []
    """The schedules that the messages belonged to, if there is an error."""


Event = ScheduleSet | ScheduleRemoved | Fired | FiringEnded
CODEC: EventCodec[Event] = EventCodec(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Event).decode)
