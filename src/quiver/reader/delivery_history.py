"""What a partition's delivery journal says about its messages: when they were delivered, acked, dead-lettered. Pure.

A delivery counts if the broker counts it. A message that was given back unread does not count (it did not fit into
the response, or an earlier message of the same key was given back). Whether a delivery counts is certain once its
messages are settled or delivered again; it is reported then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from quiver.queues.journal import events
from quiver.queues.journal.recorder import decode_record

UNKNOWN = -1
LOST = "lost"
"""The reason of messages that were settled because they are no longer in the log: they are not dead letters."""
_EVERYTHING = 2**63 - 1
_OF_NO_DELIVERY = events.MoveDone | events.DeadLettersRemoved | events.WrittenAt | events.AcksEnded


class Delivered(NamedTuple):
    """Messages that a consumer got."""

    group: int
    start: int
    end: int
    at_ms: int
    attempt: int


class Acknowledged(NamedTuple):
    """Messages that were acked."""

    group: int
    start: int
    end: int
    at_ms: int
    delivered_ms: int
    """When they were last delivered; UNKNOWN if the journal does not go back that far."""


class DeadLettered(NamedTuple):
    """Messages that became dead letters."""

    group: int
    messages: int
    at_ms: int


Fact = Delivered | Acknowledged | DeadLettered


@dataclass(slots=True)
class _LeasedRange:
    """Messages of one lease, until they are settled or leased again."""

    start: int
    end: int
    lease: int
    at_ms: int
    attempt: int
    is_void: bool = False
    """Given back, and the delivery did not count."""


class _LeasedRanges:
    """In offset order, without overlaps."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ranges: list[_LeasedRange] = []

    def put(self, run: _LeasedRange) -> None:
        at = bisect_left(self._starts, run.start)
        self._starts.insert(at, run.start)
        self._ranges.insert(at, run)

    def take(self, start: int, end: int) -> list[_LeasedRange]:
        """Takes out everything from `start` to below `end`; ranges that reach beyond are split."""
        first = max(0, bisect_right(self._starts, start) - 1)
        if first < len(self._ranges) and self._ranges[first].end <= start:
            first += 1
        last = bisect_left(self._starts, end, first)
        taken = self._ranges[first:last]
        if not taken:
            return []
        del self._ranges[first:last], self._starts[first:last]
        if taken[0].start < start:
            self.put(_part(taken[0], taken[0].start, start))
            taken[0] = _part(taken[0], start, taken[0].end)
        if taken[-1].end > end:
            self.put(_part(taken[-1], end, taken[-1].end))
            taken[-1] = _part(taken[-1], taken[-1].start, end)
        return taken


def _part(run: _LeasedRange, start: int, end: int) -> _LeasedRange:
    return _LeasedRange(start, end, run.lease, run.at_ms, run.attempt, run.is_void)


class DeliveryHistory:
    """Takes the records of one journal in order, and returns what each of them makes certain."""

    def __init__(self, groups: Collection[int] | None = None) -> None:
        """`groups`: only those; None: all."""
        self._groups = groups
        self._leased: dict[int, _LeasedRanges] = {}
        self._facts: list[Fact] = []

    def apply_record(self, at_ms: int, record: bytes) -> list[Fact]:
        """A record as it is stored, and its time."""
        return self.apply(at_ms, decode_record(record))

    def apply(self, at_ms: int, recorded: Iterable[events.Event]) -> list[Fact]:
        for event in recorded:
            if isinstance(event, _OF_NO_DELIVERY):
                continue
            if self._groups is None or event.group in self._groups:
                leased = self._leased.get(event.group)
                if leased is None:
                    leased = self._leased[event.group] = _LeasedRanges()
                self._apply(at_ms, event, leased)
        return self._take_facts()

    def finish(self) -> list[Fact]:
        """The journal ends here: messages that are still leased were delivered."""
        for group, leased in self._leased.items():
            self._release(group, leased.take(0, _EVERYTHING))
        return self._take_facts()

    def _take_facts(self) -> list[Fact]:
        facts, self._facts = self._facts, []
        return facts

    def _apply(self, at_ms: int, event: events.Event, leased: _LeasedRanges) -> None:
        match event:
            case events.Leased():
                for run in event.runs:
                    self._release(event.group, leased.take(run.start, run.end))
                    leased.put(_LeasedRange(run.start, run.end, event.lease, at_ms, run.attempt))
            case events.Acked():
                for start, end in event.runs:
                    self._ack(event, leased.take(start, end), start, end, at_ms)
            case events.Returned():
                self._return(event, leased)
            case events.Extended():
                for start, end in event.runs:
                    for part in leased.take(start, end):
                        part.is_void = part.is_void and part.lease != event.lease
                        leased.put(part)
            case events.Died():
                self._dead_letter(event, leased, at_ms)
            case events.SettledBelow():
                self._release(event.group, leased.take(0, event.offset))
            case events.Rewound() | events.Forgotten() | events.Began():
                self._release(event.group, leased.take(0, _EVERYTHING))

    def _release(self, group: int, parts: Iterable[_LeasedRange]) -> None:
        """They were delivered, unless the delivery did not count."""
        for part in parts:
            if not part.is_void:
                self._add_delivered(group, part)

    def _ack(self, event: events.Acked, parts: Iterable[_LeasedRange], start: int, end: int, at_ms: int) -> None:
        for part in parts:
            if part.lease != event.lease:
                continue
            if start < part.start:
                self._facts.append(Acknowledged(event.group, start, part.start, at_ms, UNKNOWN))
            self._add_delivered(event.group, part)
            self._facts.append(Acknowledged(event.group, part.start, part.end, at_ms, part.at_ms))
            start = part.end
        if start < end:
            self._facts.append(Acknowledged(event.group, start, end, at_ms, UNKNOWN))

    def _return(self, event: events.Returned, leased: _LeasedRanges) -> None:
        """They stay with their lease until they are leased again: an expired lease may still settle them."""
        for run in event.runs:
            for part in leased.take(run.start, run.end):
                if part.lease == event.lease:
                    part.is_void = run.attempts < part.attempt
                leased.put(part)

    def _dead_letter(self, event: events.Died, leased: _LeasedRanges, at_ms: int) -> None:
        for dead in event.dead:
            for part in leased.take(dead.start, dead.end):
                if dead.attempts >= part.attempt:
                    self._add_delivered(event.group, part)
            if dead.reason != LOST:
                self._facts.append(DeadLettered(event.group, dead.end - dead.start, at_ms))

    def _add_delivered(self, group: int, part: _LeasedRange) -> None:
        self._facts.append(Delivered(group, part.start, part.end, part.at_ms, part.attempt))
