"""What a partition's delivery journal says of its messages: when they were delivered, acknowledged, given up. Pure.

A delivery counts if the broker counts it. One that was given back unread (it did not fit into the answer, or a
message before it of the same key was given back) is none. That is certain once its messages are settled or delivered
again, and only then is it told.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from quiver.queues.journal.events import (
    Acked,
    Began,
    DeadLettersRemoved,
    Died,
    Event,
    Extended,
    Forgotten,
    Leased,
    MoveDone,
    Returned,
    Rewound,
    SettledBelow,
    WrittenAt,
)

UNKNOWN = -1
LOST = "lost"
"""Why messages are settled that the log did not have any more: they are no dead letters."""
_EVERYTHING = 2**63 - 1


class Delivered(NamedTuple):
    """Messages that went to a consumer."""

    group: int
    start: int
    end: int
    at_ms: int
    attempt: int


class Settled(NamedTuple):
    """Messages that were acknowledged."""

    group: int
    start: int
    end: int
    at_ms: int
    delivered_ms: int
    """When they were delivered the last time; UNKNOWN when the journal does not reach back so far."""


class Buried(NamedTuple):
    """Messages that became dead letters."""

    group: int
    messages: int
    at_ms: int


Fact = Delivered | Settled | Buried


@dataclass(slots=True)
class _Held:
    """Messages that are in one lease, or were until somebody else gets them."""

    start: int
    end: int
    lease: int
    at_ms: int
    attempt: int
    is_void: bool = False
    """Given back, and the delivery did not count."""


class _HeldRuns:
    """In offset order, none over another."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[_Held] = []

    def put(self, run: _Held) -> None:
        place = bisect_left(self._starts, run.start)
        self._starts.insert(place, run.start)
        self._runs.insert(place, run)

    def take(self, start: int, end: int) -> list[_Held]:
        """Takes out everything from `start` to below `end`; what reaches beyond is divided."""
        first = max(0, bisect_right(self._starts, start) - 1)
        if first < len(self._runs) and self._runs[first].end <= start:
            first += 1
        last = bisect_left(self._starts, end, first)
        taken = self._runs[first:last]
        if not taken:
            return []
        del self._runs[first:last], self._starts[first:last]
        if taken[0].start < start:
            self.put(_part(taken[0], taken[0].start, start))
            taken[0] = _part(taken[0], start, taken[0].end)
        if taken[-1].end > end:
            self.put(_part(taken[-1], end, taken[-1].end))
            taken[-1] = _part(taken[-1], taken[-1].start, end)
        return taken


def _part(run: _Held, start: int, end: int) -> _Held:
    return _Held(start, end, run.lease, run.at_ms, run.attempt, run.is_void)


class DeliveryTrail:
    """Takes the events of one journal in order and tells what they mean. `groups`: only those; None: all."""

    def __init__(self, tell: Callable[[Fact], None], groups: Collection[int] | None = None) -> None:
        self._tell = tell
        self._wanted = groups
        self._held: dict[int, _HeldRuns] = {}

    def apply(self, at_ms: int, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, MoveDone | DeadLettersRemoved | WrittenAt):
                continue
            if self._wanted is None or event.group in self._wanted:
                held = self._held.get(event.group)
                if held is None:
                    held = self._held[event.group] = _HeldRuns()
                self._apply(at_ms, event, held)

    def finish(self) -> None:
        """The journal ends here: what is held was delivered."""
        for group, held in self._held.items():
            self._let_go(group, held.take(0, _EVERYTHING))

    def _apply(self, at_ms: int, event: Event, held: _HeldRuns) -> None:
        match event:
            case Leased():
                for run in event.runs:
                    self._let_go(event.group, held.take(run.start, run.end))
                    held.put(_Held(run.start, run.end, event.lease, at_ms, run.attempt))
            case Acked():
                for start, end in event.runs:
                    self._settle(event, held.take(start, end), start, end, at_ms)
            case Returned():
                self._give_back(event, held)
            case Extended():
                for start, end in event.runs:
                    for part in held.take(start, end):
                        part.is_void = part.is_void and part.lease != event.lease
                        held.put(part)
            case Died():
                self._bury(event, held, at_ms)
            case SettledBelow():
                self._let_go(event.group, held.take(0, event.offset))
            case Rewound() | Forgotten() | Began():
                self._let_go(event.group, held.take(0, _EVERYTHING))

    def _let_go(self, group: int, parts: Iterable[_Held]) -> None:
        """Whatever comes of them now, they were delivered, unless that did not count."""
        for part in parts:
            if not part.is_void:
                self._tell_delivered(group, part)

    def _settle(self, event: Acked, parts: Iterable[_Held], start: int, end: int, at_ms: int) -> None:
        for part in parts:
            if part.lease != event.lease:
                continue
            if start < part.start:
                self._tell(Settled(event.group, start, part.start, at_ms, UNKNOWN))
            self._tell_delivered(event.group, part)
            self._tell(Settled(event.group, part.start, part.end, at_ms, part.at_ms))
            start = part.end
        if start < end:
            self._tell(Settled(event.group, start, end, at_ms, UNKNOWN))

    def _give_back(self, event: Returned, held: _HeldRuns) -> None:
        """They stay with their lease until somebody else gets them: one whose time was over may still settle them."""
        for run in event.runs:
            for part in held.take(run.start, run.end):
                if part.lease == event.lease:
                    part.is_void = run.attempts < part.attempt
                held.put(part)

    def _bury(self, event: Died, held: _HeldRuns, at_ms: int) -> None:
        for dead in event.dead:
            for part in held.take(dead.start, dead.end):
                if dead.attempts >= part.attempt:
                    self._tell_delivered(event.group, part)
            if dead.reason != LOST:
                self._tell(Buried(event.group, dead.end - dead.start, at_ms))

    def _tell_delivered(self, group: int, part: _Held) -> None:
        self._tell(Delivered(group, part.start, part.end, part.at_ms, part.attempt))
