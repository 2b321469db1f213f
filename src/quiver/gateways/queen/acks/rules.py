"""What acknowledgements of one lease and partition do, by Queen's rules. Pure.

The position moves to the last message that is completed: the messages before it are done too. A message that failed
stops it: what comes after is given back and comes again, whatever else the request says of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import groupby
from typing import NamedTuple

from quiver.model.settlement import ACK, NACK, REJECT
from quiver.structures.offset_ranges import ranges_of


class Outcome(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    RETRY = "retry"
    """Failed, and it does not count."""
    DLQ = "dlq"


_WORDS = {
    "completed": Outcome.COMPLETED,
    "success": Outcome.COMPLETED,
    "acked": Outcome.COMPLETED,
    "ok": Outcome.COMPLETED,
    "failed": Outcome.FAILED,
    "retry": Outcome.RETRY,
    "dlq": Outcome.DLQ,
}


def outcome_of(status: str) -> Outcome | None:
    """None for an unknown word."""
    return _WORDS.get(status)


class Mark(NamedTuple):
    """What a request says of one message."""

    outcome: Outcome
    error: str = ""


class Step(NamedTuple):
    action: int
    runs: list[tuple[int, int]]
    error: str = ""
    is_counted: bool = True


class Plan(NamedTuple):
    steps: list[Step]
    """To be done in this order."""
    dead: set[int]
    """Offsets of messages that become dead letters."""
    is_released: bool
    """Whether the lease holds nothing more of the partition."""


def plan(offsets: Sequence[int], marks: Mapping[int, Mark], *, is_last_attempt: bool) -> Plan:
    """`offsets` are the messages that the lease holds, in order; all marks are of these."""
    dead = {
        offset
        for offset, mark in marks.items()
        if mark.outcome is Outcome.DLQ or (mark.outcome is Outcome.FAILED and is_last_attempt)
    }
    failed = [
        offset
        for offset, mark in marks.items()
        if offset not in dead and mark.outcome in (Outcome.FAILED, Outcome.RETRY)
    ]
    stop = min(failed, default=None)
    passed = (
        offset
        for offset, mark in marks.items()
        if (mark.outcome is Outcome.COMPLETED or offset in dead) and (stop is None or offset < stop)
    )
    end = bisect_right(offsets, max(passed, default=-1))
    steps = list(_settled(offsets[:end], dead, marks))
    if stop is not None:
        first, is_counted = offsets[end], any(marks[offset].outcome is Outcome.FAILED for offset in failed)
        steps.append(Step(NACK, [(first, first + 1)], marks[stop].error, is_counted))
    done = set(offsets[:end]) & dead if dead else dead
    return Plan(steps, done, stop is not None or end == len(offsets))


def _settled(offsets: Sequence[int], dead: set[int], marks: Mapping[int, Mark]) -> Iterable[Step]:
    if not dead:
        if offsets:
            yield Step(ACK, ranges_of(offsets))
        return
    reasons = ((offset, marks[offset].error if offset in dead else None) for offset in offsets)
    for error, group in groupby(reasons, key=lambda reason: reason[1]):
        runs = ranges_of(offset for offset, _ in group)
        yield Step(ACK, runs) if error is None else Step(REJECT, runs, error)
