"""Fired messages of schedules, until they are in their topics."""

from collections.abc import Callable

import msgspec

from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.schedule import Schedule
from quiver.model.times import format_time
from quiver.outbox.outbox import Move, Outbox, Target
from quiver.partition.pending import message_size
from quiver.schedules.events import Turn
from quiver.schedules.state import ScheduleState

_MOVE_BYTES = MIB


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """A part of a move's content. It has everything the message needs, so later changes do not affect it."""

    schedule: str
    at_ms: int
    """The time at which it was due."""
    fired_at_ms: int
    is_late: bool
    """It replaces one or more firings that were missed."""
    is_manual: bool
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes]
    priority: Priority

    @classmethod
    def of(
        cls, schedule: Schedule, *, at_ms: int, fired_at_ms: int, is_late: bool = False, is_manual: bool = False
    ) -> "Firing":
        return cls(
            schedule.name,
            at_ms,
            fired_at_ms,
            is_late,
            is_manual,
            schedule.value,
            schedule.key,
            schedule.headers,
            schedule.priority,
        )


class FiringBatch:
    """Firings of the same moment: those for one partition are one move."""

    def __init__(self, outbox: Outbox, target_of: Callable[[Schedule, int], Target]) -> None:
        self.turns: list[Turn] = []
        self.size_bytes = 0
        self._outbox = outbox
        self._target_of = target_of
        self._by_target: dict[tuple[Target, Priority], list[list[Firing]]] = {}
        self._room: dict[tuple[Target, Priority], int] = {}

    def add(
        self,
        state: ScheduleState,
        *,
        at_ms: int,
        next_ms: int | None,
        fired_at_ms: int,
        is_late: bool = False,
        is_manual: bool = False,
    ) -> None:
        """One firing of a schedule. If its message cannot be sent, the turn says why."""
        schedule = state.schedule
        try:
            target = self._target_of(schedule, state.fired_count)
        except QuiverError as error:
            self.skip(state, at_ms=at_ms, next_ms=next_ms, error=error.message)
            return
        self.turns.append(Turn(schedule.name, at_ms, next_ms))
        firing = Firing.of(schedule, at_ms=at_ms, fired_at_ms=fired_at_ms, is_late=is_late, is_manual=is_manual)
        size = message_size(message_of(firing))
        self.size_bytes += size
        place = (target, schedule.priority)
        frames = self._by_target.setdefault(place, [])
        if not frames or size > self._room[place]:
            frames.append([])
            self._room[place] = _MOVE_BYTES
        frames[-1].append(firing)
        self._room[place] -= size

    def skip(self, state: ScheduleState, *, at_ms: int, next_ms: int | None, error: str) -> None:
        self.turns.append(Turn(state.schedule.name, at_ms, next_ms, error))

    def begin(self) -> list[Move]:
        """The moves, in the outbox. They must be journaled with the turns, or taken back."""
        return [
            self._outbox.begin(target, len(frame), msgspec.to_builtins(frame, builtin_types=(bytes,)))
            for (target, _), frames in self._by_target.items()
            for frame in frames
        ]


def firings_of(move: Move) -> list[Firing]:
    return msgspec.convert(move.content, list[Firing])


def message_of(firing: Firing) -> NewMessage:
    """The schedule's own headers, and those that name the schedule and its time."""
    headers = {
        **firing.headers,
        "schedule.name": firing.schedule.encode(),
        "schedule.time": format_time(firing.at_ms).encode(),
    }
    if firing.is_late:
        headers["schedule.late"] = b"true"
    if firing.is_manual:
        headers["schedule.manual"] = b"true"
    return NewMessage(
        value=firing.value,
        key=firing.key,
        headers=headers,
        timestamp_ms=firing.fired_at_ms,
        priority=firing.priority,
    )
