"""A queue group without an order: any message to anybody, cost by runs. Pure.

Each level is read and delivered by itself; in offset order all levels are one.
"""

from collections.abc import Iterator, Sequence
from sys import intern
from typing import Any, NamedTuple

import msgspec

from quiver.model.errors import LeaseLost
from quiver.model.queue import QueueSettings
from quiver.queues.journal.events import (
    Acked,
    Extended,
    Leased,
    LeasedRun,
    Returned,
    ReturnedRun,
    Rewound,
    SettledBelow,
)
from quiver.queues.state.port import LEVELS, Counts, Dead, Piece, Refused, Run, Settlement, Taken
from quiver.queues.state.unordered import snapshot as unordered_image
from quiver.queues.state.unordered.in_flight import Ledger
from quiver.queues.state.unordered.in_flight_run import (
    EXPIRED,
    LEASE_EXPIRED,
    LEASED,
    RETURNED,
    WAITING,
    Entry,
    joined,
)
from quiver.queues.state.unordered.ready_queue import Line
from quiver.queues.state.unordered.replay import replay
from quiver.structures.interval_set import IntervalSet

_EXPIRE_AT_ONCE = 2_000
_MOST_DOUBLINGS = 40


class _Undo(NamedTuple):
    era: int
    """Of another life of the group, nothing can be taken back."""
    removed: list[Entry]
    changed: list[Entry]
    """As they were before."""


class _Claim(NamedTuple):
    parts: list[Entry]
    """Taken out of the ledger, in order."""
    refused: list[Refused]


class UnorderedState:
    """A GroupState; see there for what each verb means."""

    def __init__(self, group_id: int, start: int, *, in_offset_order: bool = False) -> None:
        self.group_id = group_id
        self.in_offset_order = in_offset_order
        self.events: list[msgspec.Struct] = []
        self._line_of = (0,) * LEVELS if in_offset_order else tuple(range(LEVELS))
        self._begin_at(start)
        self._era = 0

    def _begin_at(self, offset: int) -> None:
        self._ledger = Ledger(self._line_of)
        self._positions = [offset] * len(self._ledger.lines)
        self._floor = offset
        self._unwritten: dict[int, tuple[str, int, list[LeasedRun]]] = {}
        """By lease: what was taken and is on no event yet."""

    # reading ahead

    def position(self, level: int) -> int:
        return self._positions[self._line_of[level]]

    def feed(self, level: int, pieces: Sequence[Piece], position: int) -> None:
        line = self._line_of[level]
        for piece in pieces:
            self._ledger.lines[line].feed(piece.start, piece.end, piece.level)
        self._positions[line] = position

    # taking

    def available(self, now_ms: int) -> list[int]:
        """In offset order, everything counts as of the first level."""
        self._ledger.wake(now_ms)
        found = [line.due_count + line.ready_count for line in self._ledger.lines]
        return found + [0] * (LEVELS - len(found))

    def take(
        self,
        level: int,
        count: int,
        *,
        lease: int,
        consumer: str,
        now_ms: int,
        deadline_ms: int,
        delivered_ms: int | None = None,
    ) -> list[Taken]:
        self._ledger.wake(now_ms)
        delivered_ms = now_ms if delivered_ms is None else delivered_ms
        consumer = intern(consumer)
        line = self._ledger.lines[self._line_of[level]]
        granted: list[Entry] = []
        _, _, runs = self._unwritten.setdefault(lease, (consumer, deadline_ms, []))
        while count > 0 and (fresh := self._next(line, count)) is not None:
            previous, fresh.lease = fresh.lease, lease
            count -= fresh.end - fresh.start
            fresh.error = fresh.last_error if previous else ""
            fresh.first_delivered_ms = fresh.first_delivered_ms if fresh.attempts else delivered_ms
            fresh.attempts += 1
            fresh.state, fresh.time_ms, fresh.consumer = LEASED, deadline_ms, consumer
            self._grant(granted, runs, fresh, previous)
        if not runs:
            del self._unwritten[lease]
        return [entry.taken() for entry in granted]

    def _next(self, line: Line, count: int) -> Entry | None:
        """The next run that can be had, taken out of its place. Its lease is the one it was in, 0 when in none."""
        due = self._ledger.first_due(line)
        if due is not None:
            return self._ledger.cut(due, due.start, due.start + count)
        if not line.ready:
            return None
        start, end, level = line.take_ready(count)
        return Entry(start, end, level, 0, 0, RETURNED, 0, 0, "")

    def _grant(self, granted: list[Entry], runs: list[LeasedRun], entry: Entry, previous: int) -> None:
        """Runs with the same history that follow each other become one."""
        last = granted[-1] if granted else None
        if last is not None and last.goes_on_in(entry):
            self._ledger.lengthen(last, entry.end)
            runs[-1] = msgspec.structs.replace(runs[-1], end=entry.end)
            return
        self._ledger.put(entry)
        granted.append(entry)
        runs.append(
            LeasedRun(entry.start, entry.end, entry.level, entry.attempts, entry.first_delivered_ms, previous)
        )

    def lease_taken(self, lease: int) -> None:
        """Everything that is taken and on no event yet gets its own, because positions go beyond all of it."""
        unwritten, self._unwritten = self._unwritten, {}
        positions = self._taken_positions()
        for lease, (consumer, deadline_ms, runs) in unwritten.items():
            self.events.append(Leased(self.group_id, lease, consumer, deadline_ms, runs, positions))

    def _taken_positions(self) -> list[int]:
        lines = zip(self._ledger.lines, self._positions, strict=True)
        return [line.ready[0][0] if line.ready else position for line, position in lines]

    # settling

    def ack(self, lease: int, runs: Sequence[Run]) -> Settlement:
        parts, refused = self._claim(lease, runs)
        if parts:
            self.events.append(Acked(self.group_id, lease, joined(parts)))
        return Settlement(refused, undo=_Undo(self._era, parts, []))

    def nack(
        self,
        lease: int,
        runs: Sequence[Run],
        *,
        now_ms: int,
        delay_ms: int | None,
        is_counted: bool,
        error: str,
        settings: QueueSettings,
        jitter: float,
    ) -> Settlement:
        parts, refused = self._claim(lease, runs)
        undo = _Undo(self._era, [], [])
        dead: list[Dead] = []
        returned: list[ReturnedRun] = []
        for part in parts:
            if is_counted and part.attempts >= settings.max_attempts:
                undo.removed.append(part)
                dead.append(part.dead("max_attempts", error or part.error))
                continue
            undo.changed.append(part.part(part.start, part.end))
            part.attempts -= 0 if is_counted else 1
            pause = delay_ms if delay_ms is not None else int(_backoff_ms(part.attempts, settings) * jitter)
            part.state, part.time_ms, part.error = WAITING, now_ms + pause, error or part.error
            self._ledger.put(part)
            returned.append(ReturnedRun(part.start, part.end, part.attempts, part.time_ms))
        if returned:
            self.events.append(Returned(self.group_id, lease, returned, error))
        until_ms = min((run.due_ms for run in returned), default=None)
        return Settlement(refused, dead, until_ms, undo)

    def reject(self, lease: int, runs: Sequence[Run], reason: str) -> Settlement:
        parts, refused = self._claim(lease, runs)
        dead = [part.dead("rejected", reason) for part in parts]
        return Settlement(refused, dead, undo=_Undo(self._era, parts, []))

    def extend(self, lease: int, runs: Sequence[Run], deadline_ms: int) -> Settlement:
        parts, refused = self._claim(lease, runs)
        changed = [part.part(part.start, part.end) for part in parts]
        for part in parts:
            part.state, part.time_ms = LEASED, deadline_ms
            self._ledger.put(part)
        if parts:
            self.events.append(Extended(self.group_id, lease, joined(parts), deadline_ms))
        return Settlement(refused, until_ms=deadline_ms if parts else None, undo=_Undo(self._era, [], changed))

    def drop(self, lease: int, runs: Sequence[Run], reason: str) -> list[Dead]:
        parts, _ = self._claim(lease, runs)
        for part in parts:
            part.attempts -= 1
        return [part.dead(reason, part.error) for part in parts]

    def _claim(self, lease: int, runs: Sequence[Run]) -> _Claim:
        """Takes out what the lease still has of the runs, and refuses the rest."""
        parts: list[Entry] = []
        refused: list[Refused] = []
        for start, end in runs:
            at = start
            for entry in self._ledger.unsettled.overlapping(start, end):
                if entry.lease != lease or not entry.can_be_settled:
                    continue
                part = self._ledger.cut(entry, start, end)
                if at < part.start:
                    refused.append(_refused(at, part.start))
                at = part.end
                parts.append(part)
            if at < end:
                refused.append(_refused(at, end))
        return _Claim(parts, refused)

    def take_back(self, undo: Any) -> None:
        if undo.era != self._era:
            return
        for before in undo.removed:
            if before.end > self._floor:
                self._ledger.put(before.part(max(before.start, self._floor), before.end))
        for before in undo.changed:
            for entry in self._ledger.unsettled.overlapping(before.start, before.end):
                if entry.lease == before.lease:
                    part = self._ledger.cut(entry, before.start, before.end)
                    self._ledger.put(before.part(part.start, part.end))

    # time

    def end_leases(self, consumer: str) -> None:
        if consumer not in self._ledger.held:
            return
        held = [entry for entry in self._ledger.unsettled if entry.state == LEASED and entry.consumer == consumer]
        by_lease: dict[int, list[Entry]] = {}
        for entry in held:
            self._ledger.change(entry, EXPIRED, 0)
            by_lease.setdefault(entry.lease, []).append(entry)
        for lease, entries in by_lease.items():
            self.events.append(Extended(self.group_id, lease, joined(entries), 0))

    def expire(self, now_ms: int, settings: QueueSettings, *, may_die: bool = True) -> list[Dead]:
        self._ledger.wake(now_ms)
        dead: list[Dead] = []
        for entry in self._ledger.expired(now_ms, _EXPIRE_AT_ONCE):
            if may_die and entry.attempts >= settings.max_attempts:
                self._ledger.cut(entry, entry.start, entry.end)
                dead.append(entry.dead("max_attempts", entry.error or LEASE_EXPIRED))
            else:
                self._ledger.change(entry, EXPIRED, entry.time_ms)
        return dead

    def next_time_ms(self) -> int | None:
        return self._ledger.next_time_ms()

    # all below

    def settle_below(self, offset: int) -> int:
        if offset <= self._floor:
            return 0
        self.events.append(SettledBelow(self.group_id, offset))
        return self._drop_below(offset)

    def _drop_below(self, offset: int) -> int:
        gone = sum(part.end - part.start for part in self._ledger.cut_all(0, offset))
        gone += sum(line.drop_ready_below(offset) for line in self._ledger.lines)
        self._positions = [max(position, offset) for position in self._positions]
        self._floor = max(self._floor, offset)
        return gone

    def lowest_unsettled(self, *, newest: Sequence[int] | None = None, end: int = 0) -> int:
        lowest = self._ledger.unsettled.lowest
        positions = self._taken_positions()
        if newest is not None and not self.in_offset_order:
            positions = [max(at, end) if at >= last else at for at, last in zip(positions, newest, strict=True)]
        return min(positions) if lowest is None else min(lowest, *positions)

    def lowest_unsettled_without(self, runs: Sequence[Run]) -> int:
        """What `lowest_unsettled` would be if these messages were settled. Costs as much as they are runs."""
        without, positions = IntervalSet(runs), self._taken_positions()
        for entry in self._ledger.unsettled:
            for start, _ in without.gaps(entry.start, entry.end):
                return min(start, *positions)
        return min(positions)

    # counts

    def held_by(self) -> dict[str, int]:
        return dict(self._ledger.held)

    def counts(self) -> Counts:
        ledger = self._ledger
        return Counts(
            sum(ledger.leased),
            ledger.retrying,
            sum(line.ready_count for line in ledger.lines),
            tuple(ledger.leased),
        )

    def blocked_keys(self, now_ms: int, limit: int) -> list[tuple[bytes, int]]:
        return []

    # the journal

    def apply(self, event: msgspec.Struct) -> None:
        match event:
            case Rewound():
                self._era += 1
                self._begin_at(event.offset)
            case SettledBelow():
                self._drop_below(event.offset)
            case _:
                replay(self._ledger, event)
                if isinstance(event, Leased):
                    self._positions = [max(pair) for pair in zip(self._positions, event.positions, strict=True)]

    def image(self) -> Iterator[bytes]:
        return unordered_image.image(self._image_positions(), self._line_of, self._ledger.unsettled)

    def _image_positions(self) -> list[int]:
        """What is on no event yet is not in the image either: should it never be written, it is read anew."""
        positions = self._taken_positions()
        for _, _, runs in self._unwritten.values():
            for run in runs:
                if not run.previous_lease:
                    line = self._line_of[run.level]
                    positions[line] = min(positions[line], run.start)
        return positions

    def restore(self, pieces: Sequence[bytes], ahead_ms: int = 0) -> None:
        positions, entries = unordered_image.restored(pieces, ahead_ms)
        self._begin_at(0)
        self._positions = positions
        for piece in entries:
            self._ledger.load(piece)


def _refused(start: int, end: int) -> Refused:
    what = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
    return Refused(start, end, LeaseLost(message=what))


def _backoff_ms(attempts: int, settings: QueueSettings) -> int:
    doublings = min(max(attempts - 1, 0), _MOST_DOUBLINGS)
    return min(settings.backoff_ms << doublings, settings.backoff_max_ms)
