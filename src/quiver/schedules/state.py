"""The recurring schedules and their moves that are not done. Pure: events in, state out."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from quiver.model.schedule import Schedule
from quiver.outbox.outbox import Outbox
from quiver.schedules.events import Event, Fired, FiringEnded, ScheduleRemoved, ScheduleSet, Turn


class ScheduleState(msgspec.Struct):
    schedule: Schedule
    next_ms: int | None
    """None while it is paused, or if it never fires again."""
    last_ms: int | None = None
    """The time at which the last firing was due."""
    fired_count: int = 0
    error: str = ""
    """Why the last firing sent nothing."""


class _Snapshot(msgspec.Struct):
    """What a snapshot holds."""

    states: list[ScheduleState]
    outbox: Any


class ScheduleTable:
    def __init__(self) -> None:
        self.states: dict[str, ScheduleState] = {}
        self.outbox = Outbox()

    def apply(self, event: Event) -> None:
        match event:
            case ScheduleSet(schedule, next_ms):
                state = self.states.get(schedule.name)
                if state is None:
                    self.states[schedule.name] = ScheduleState(schedule, next_ms)
                else:
                    state.error = state.error if schedule.topic == state.schedule.topic else ""
                    state.schedule, state.next_ms = schedule, next_ms
            case ScheduleRemoved(name):
                self.states.pop(name, None)
            case Fired(turns, moves):
                for move in moves:
                    self.outbox.begun(move)
                for turn in turns:
                    self._turn(turn)
            case FiringEnded(move_id, error, schedules):
                self.outbox.done(move_id)
                for name in schedules:
                    if name in self.states:
                        self.states[name].error = error

    def _turn(self, turn: Turn) -> None:
        state = self.states.get(turn.name)
        if state is not None:
            state.next_ms, state.last_ms, state.error = turn.next_ms, turn.at_ms, turn.error
            state.fired_count += not turn.error

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Names of schedules whose time has come, the longest overdue first."""
        found = [
            (state.next_ms, name)
            for name, state in self.states.items()
            if state.next_ms is not None and state.next_ms <= now_ms
        ]
        return [name for _, name in sorted(found)[:limit]]

    def next_time_ms(self, but_for: Collection[str] = ()) -> int | None:
        times = [
            state.next_ms for name, state in self.states.items() if state.next_ms is not None and name not in but_for
        ]
        return min(times, default=None)

    def snapshot(self) -> Iterator[bytes]:
        yield msgspec.msgpack.encode(_Snapshot(list(self.states.values()), self.outbox.image()))

    def restore(self, data: bytes) -> None:
        stored = msgspec.msgpack.decode(data, type=_Snapshot)
        self.states = {state.schedule.name: state for state in stored.states}
        self.outbox.restore(stored.outbox)
