"""What a partition's delivery journal says about one message. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from quiver.life.journal_index import JournalRecord
from quiver.model.trace.life import Happening, LifeEvent
from quiver.outbox.outbox import Move
from quiver.queues.journal import events
from quiver.queues.state.port import LEASE_EXPIRED, Dead

LOST = "lost"


class Departure(NamedTuple):
    """The message left its log with a move: this is how the target recognises it."""

    event: int
    """The place among the life's events of the one that says so."""
    move: Move
    place: int
    """Of the message in the move."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A delivery that has not ended."""

    lease: int
    at_ms: int
    consumer: str
    attempt: int
    until_ms: int
    place: int
    """Of its `delivered` among the events."""


class _Group:
    def __init__(self) -> None:
        self.held: _Held | None = None
        self.is_settled = False
        self.is_dead = False
        self.attempts = 0

    def copy(self) -> "_Group":
        copied = _Group()
        copied.held, copied.is_settled = self.held, self.is_settled
        copied.is_dead, copied.attempts = self.is_dead, self.attempts
        return copied


class GroupOutcome(NamedTuple):
    is_settled: bool
    is_dead: bool
    is_leased: bool
    attempts: int


class Deliveries:
    """Takes the records that may concern a message, in order; `name_of` is the name of a group."""

    def __init__(self, offset: int, name_of: Callable[[int], str | None]) -> None:
        self._offset = offset
        self._name_of = name_of
        self._groups: dict[int, _Group] = {}
        self._clock_ahead_ms = 0
        self.events: list[LifeEvent] = []
        self.departures: list[Departure] = []

    def copy(self) -> "Deliveries":
        """For another message to which the same has happened so far."""
        copied = Deliveries(self._offset, self._name_of)
        copied._groups = {number: group.copy() for number, group in self._groups.items()}
        copied._clock_ahead_ms = self._clock_ahead_ms
        copied.events, copied.departures = list(self.events), list(self.departures)
        return copied

    def move_to(self, offset: int) -> None:
        """From now on it is about another message to which the same has happened so far."""
        self._offset = offset

    def apply(self, records: Iterable[JournalRecord]) -> None:
        for at_ms, recorded in records:
            for event in recorded:
                self._apply(at_ms, event)

    def finish(self, now_ms: int) -> dict[int, GroupOutcome]:
        """The journal ends here. Returns what the groups have done that it mentions."""
        for number, group in self._groups.items():
            if group.held is not None and group.held.until_ms <= now_ms:
                self._end(number, group, "lease_ended", group.held.until_ms, error=LEASE_EXPIRED)
        return {
            number: GroupOutcome(group.is_settled, group.is_dead, group.held is not None, group.attempts)
            for number, group in self._groups.items()
        }

    def _apply(self, at_ms: int, event: events.Event) -> None:
        match event:
            case events.WrittenAt():
                self._clock_ahead_ms = event.now_ms - at_ms
            case events.Leased():
                self._lease(at_ms, event)
            case events.Acked() if self._concerns(event.runs):
                group = self._group(event.group)
                self._end(event.group, group, "acked", at_ms, lease=event.lease)
                group.is_settled = True
            case events.Returned():
                self._return(at_ms, event)
            case events.Extended() if self._concerns(event.runs):
                self._extend(at_ms, event)
            case events.Died():
                self._die(at_ms, event)
            case events.SettledBelow() if event.offset > self._offset:
                self._settle(at_ms, event.group, is_commit=event.version is not None)
            case events.Rewound():
                self._rewind(at_ms, event)
            case events.Forgotten():
                self._groups.pop(event.group, None)
            case events.DeadLettersRemoved() if self._concerns(event.runs):
                self._remove(at_ms, event)

    def _group(self, number: int) -> _Group:
        return self._groups.setdefault(number, _Group())

    def _concerns(self, runs: Sequence[tuple[int, int]]) -> bool:
        return any(start <= self._offset < end for start, end in runs)

    def _wall_ms(self, lease_time_ms: int) -> int:
        """A time of the clock of leases by the clock of the broker."""
        return lease_time_ms - self._clock_ahead_ms

    def _lease(self, at_ms: int, event: events.Leased) -> None:
        for run in event.runs:
            if not run.start <= self._offset < run.end:
                continue
            group = self._group(event.group)
            if group.held is not None:
                ended_ms = min(at_ms, group.held.until_ms)
                self._end(event.group, group, "lease_ended", ended_ms, error=LEASE_EXPIRED)
            until_ms = self._wall_ms(event.deadline_ms)
            group.held = _Held(event.lease, at_ms, event.consumer, run.attempt, until_ms, len(self.events))
            group.attempts, group.is_settled = run.attempt, False
            self._add("delivered", at_ms, event.group, group.held, until_ms=until_ms)

    def _return(self, at_ms: int, event: events.Returned) -> None:
        for run in event.runs:
            if not run.start <= self._offset < run.end:
                continue
            group = self._group(event.group)
            held = group.held
            due_ms = self._wall_ms(run.due_ms) if run.due_ms > 0 else None
            if event.error == LEASE_EXPIRED:
                ended_ms = at_ms if held is None else min(at_ms, held.until_ms)
                self._end(event.group, group, "lease_ended", ended_ms, error=event.error, lease=event.lease)
            elif held is not None and run.attempts < held.attempt:
                self._end(event.group, group, "given_back", at_ms, lease=event.lease, until_ms=due_ms)
            else:
                self._end(event.group, group, "nacked", at_ms, error=event.error, lease=event.lease, until_ms=due_ms)
            group.attempts = run.attempts

    def _extend(self, at_ms: int, event: events.Extended) -> None:
        group = self._group(event.group)
        until_ms = self._wall_ms(event.deadline_ms)
        if group.held is not None and group.held.lease == event.lease:
            group.held = replace(group.held, until_ms=until_ms)
        self._add("extended", at_ms, event.group, group.held, until_ms=until_ms)

    def _die(self, at_ms: int, event: events.Died) -> None:
        for dead in event.dead:
            if not dead.start <= self._offset < dead.end:
                continue
            group = self._group(event.group)
            happening: Happening = "lost" if dead.reason == LOST else "dead_lettered"
            self._end(event.group, group, happening, at_ms, error=dead.error, reason=dead.reason)
            group.is_settled = group.is_dead = True
            group.attempts = dead.attempts
            for move in event.moves:
                _, named = msgspec.convert(move.content, tuple[int, list[Dead]])
                self._depart(move, [(each.start, each.end) for each in named])

    def _settle(self, at_ms: int, number: int, *, is_commit: bool) -> None:
        group = self._group(number)
        if not group.is_settled:
            self._end(number, group, "committed" if is_commit else "passed_over", at_ms)
            group.is_settled = True

    def _rewind(self, at_ms: int, event: events.Rewound) -> None:
        if event.offset > self._offset:
            self._settle(at_ms, event.group, is_commit=event.version is not None)
            return
        group = self._groups.pop(event.group, None)
        if group is not None and (group.is_settled or group.attempts):
            self._add("rewound", at_ms, event.group, None)

    def _remove(self, at_ms: int, event: events.DeadLettersRemoved) -> None:
        if not event.moves:
            self.events.append(LifeEvent("purged", at_ms))
        for move in event.moves:
            runs = msgspec.convert(move.content, list[tuple[int, int]])
            if self._concerns(runs):
                self.events.append(LifeEvent("redriven", at_ms))
                self._depart(move, runs)

    def _depart(self, move: Move, runs: Sequence[tuple[int, int]]) -> None:
        place = 0
        for start, end in runs:
            if start <= self._offset < end:
                self.departures.append(Departure(len(self.events) - 1, move, place + self._offset - start))
                return
            place += end - start

    def _end(
        self,
        number: int,
        group: _Group,
        happening: Happening,
        at_ms: int,
        *,
        lease: int | None = None,
        **more: str | int | None,
    ) -> None:
        """Something ends a delivery; one of another lease than the last is of a consumer that is not known."""
        held = group.held
        if held is not None and lease not in (None, held.lease):
            held = None
        if held is not None:
            delivered = self.events[held.place]
            self.events[held.place] = msgspec.structs.replace(delivered, duration_ms=max(0, at_ms - held.at_ms))
            group.held = None
        self._add(happening, at_ms, number, held, **more)

    def _add(
        self, happening: Happening, at_ms: int, number: int, held: _Held | None, **more: str | int | None
    ) -> None:
        event = LifeEvent(happening, at_ms, self._name_of(number) or str(number))
        if held is not None:
            more = {"consumer": held.consumer, "attempt": held.attempt, **more}
            if happening not in ("delivered", "extended"):
                more["duration_ms"] = max(0, at_ms - held.at_ms)
        self.events.append(msgspec.structs.replace(event, **more))
