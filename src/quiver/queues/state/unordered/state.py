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
from quiver.queues.state.port import (
    LEASE_EXPIRED,
    LEVELS,
    BlockedKey,
    Counts,
    Dead,
    HeldRun,
    LeaseTerms,
    Refused,
    Run,
    Settlement,
    StoredRun,
    Taken,
)
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.queues.state.unordered import snapshot as unordered_snapshot
from quiver.queues.state.unordered.in_flight import (
    EXPIRED,
    LEASED,
    RETURNED,
    WAITING,
    InFlight,
    InFlightRun,
    ReadyQueue,
    runs_of,
)
from quiver.queues.state.unordered.replay import replay
from quiver.structures.interval_set import IntervalSet

_EXPIRE_AT_ONCE = 2_000


class _Undo(NamedTuple):
    era: int
    """A settlement from before a rewind cannot be undone."""
    removed: list[InFlightRun]
    changed: list[InFlightRun]
    """As they were before."""


class _Claim(NamedTuple):
    parts: list[InFlightRun]
    """Taken out of what is in flight, in order."""
    refused: list[Refused]


class UnorderedState:
    """A GroupState; see there for what each verb means."""

    def __init__(self, group_id: int, start: int, *, in_offset_order: bool = False) -> None:
        self.group_id = group_id
        self.in_offset_order = in_offset_order
        self.events: list[msgspec.Struct] = []
        self._queue_of_level = (0,) * LEVELS if in_offset_order else tuple(range(LEVELS))
        self._begin_at(start)
        self._era = 0

    def _begin_at(self, offset: int) -> None:
        self._in_flight = InFlight(self._queue_of_level)
        self._positions = [offset] * len(self._in_flight.ready_queues)
        self._floor = offset
        self._unwritten: dict[int, tuple[str, int, list[LeasedRun]]] = {}
        """By lease: what was taken and is in no event yet."""

    # reading ahead

    def position(self, level: int) -> int:
        return self._positions[self._queue_of_level[level]]

    def feed(self, level: int, runs: Sequence[StoredRun], position: int) -> None:
        ready_queue = self._queue_of_level[level]
        for run in runs:
            self._in_flight.ready_queues[ready_queue].feed(run.start, run.end, run.level)
        self._positions[ready_queue] = position

    # taking

    def available(self, now_ms: int) -> list[int]:
        """In offset order, everything counts as of the first level."""
        self._in_flight.wake(now_ms)
        found = [ready_queue.due_count + ready_queue.ready_count for ready_queue in self._in_flight.ready_queues]
        return found + [0] * (LEVELS - len(found))

    def take(
        self, level: int, count: int, terms: LeaseTerms, now_ms: int, delivered_ms: int | None = None
    ) -> list[Taken]:
        self._in_flight.wake(now_ms)
        delivered_ms = now_ms if delivered_ms is None else delivered_ms
        lease, consumer, deadline_ms = terms.lease, intern(terms.consumer), terms.deadline_ms
        ready_queue = self._in_flight.ready_queues[self._queue_of_level[level]]
        granted: list[InFlightRun] = []
        _, _, runs = self._unwritten.setdefault(lease, (consumer, deadline_ms, []))
        while count > 0 and (fresh := self._next(ready_queue, count)) is not None:
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

    def _next(self, ready_queue: ReadyQueue, count: int) -> InFlightRun | None:
        """The next available run, taken out of its place. Its lease is the one it was in before, 0 if none."""
        due = self._in_flight.first_due(ready_queue)
        if due is not None:
            return self._in_flight.cut(due, due.start, due.start + count)
        if not ready_queue.ready:
            return None
        start, end, level = ready_queue.take_ready(count)
        return InFlightRun(start, end, level, 0, 0, RETURNED, 0, 0, "")

    def _grant(self, granted: list[InFlightRun], runs: list[LeasedRun], entry: InFlightRun, previous: int) -> None:
        """Runs with the same history that follow each other become one."""
        last = granted[-1] if granted else None
        if last is not None and last.goes_on_in(entry):
            self._in_flight.lengthen(last, entry.end)
            runs[-1] = msgspec.structs.replace(runs[-1], end=entry.end)
            return
        self._in_flight.put(entry)
        granted.append(entry)
        runs.append(
            LeasedRun(entry.start, entry.end, entry.level, entry.attempts, entry.first_delivered_ms, previous)
        )

    def lease_taken(self) -> None:
        """Adds an event for everything that was taken and is in no event yet: positions are beyond all of it."""
        unwritten, self._unwritten = self._unwritten, {}
        positions = self._taken_positions()
        for lease, (consumer, deadline_ms, runs) in unwritten.items():
            self.events.append(Leased(self.group_id, lease, consumer, deadline_ms, runs, positions))

    def _taken_positions(self) -> list[int]:
        ready_queues = zip(self._in_flight.ready_queues, self._positions, strict=True)
        return [ready_queue.ready[0][0] if ready_queue.ready else position for ready_queue, position in ready_queues]

    # settling

    def ack(self, lease: int, runs: Sequence[Run]) -> Settlement:
        parts, refused = self._claim(lease, runs)
        if parts:
            self.events.append(Acked(self.group_id, lease, runs_of(parts)))
        return Settlement(refused, undo=_Undo(self._era, parts, []))

    def nack(self, lease: int, runs: Sequence[Run], policy: RetryPolicy) -> Settlement:
        parts, refused = self._claim(lease, runs)
        undo = _Undo(self._era, [], [])
        dead: list[Dead] = []
        returned: list[ReturnedRun] = []
        for part in parts:
            if policy.is_last(part.attempts):
                undo.removed.append(part)
                dead.append(part.dead("max_attempts", policy.error or part.error))
                continue
            undo.changed.append(part.part(part.start, part.end))
            part.attempts -= 0 if policy.is_counted else 1
            part.state, part.time_ms = WAITING, policy.due_ms(part.attempts)
            part.error = policy.error or part.error
            self._in_flight.put(part)
            returned.append(ReturnedRun(part.start, part.end, part.attempts, part.time_ms))
        if returned:
            self.events.append(Returned(self.group_id, lease, returned, policy.error))
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
            self._in_flight.put(part)
        if parts:
            self.events.append(Extended(self.group_id, lease, runs_of(parts), deadline_ms))
        return Settlement(refused, until_ms=deadline_ms if parts else None, undo=_Undo(self._era, [], changed))

    def drop(self, lease: int, runs: Sequence[Run], reason: str) -> list[Dead]:
        parts, _ = self._claim(lease, runs)
        for part in parts:
            part.attempts -= 1
        return [part.dead(reason, part.error) for part in parts]

    def _claim(self, lease: int, runs: Sequence[Run]) -> _Claim:
        """Takes out what the lease still has of the runs, and refuses the rest."""
        parts: list[InFlightRun] = []
        refused: list[Refused] = []
        for start, end in runs:
            at = start
            for entry in self._in_flight.unsettled.overlapping(start, end):
                if entry.lease != lease or not entry.can_be_settled:
                    continue
                part = self._in_flight.cut(entry, start, end)
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
                self._in_flight.put(before.part(max(before.start, self._floor), before.end))
        for before in undo.changed:
            for entry in self._in_flight.unsettled.overlapping(before.start, before.end):
                if entry.lease == before.lease:
                    part = self._in_flight.cut(entry, before.start, before.end)
                    self._in_flight.put(before.part(part.start, part.end))

    # time

    def end_leases(self, consumer: str) -> None:
        if consumer not in self._in_flight.held:
            return
        held = [entry for entry in self._in_flight.unsettled if entry.state == LEASED and entry.consumer == consumer]
        by_lease: dict[int, list[InFlightRun]] = {}
        for entry in held:
            self._in_flight.change(entry, EXPIRED, 0)
            by_lease.setdefault(entry.lease, []).append(entry)
        for lease, entries in by_lease.items():
            self.events.append(Extended(self.group_id, lease, runs_of(entries), 0))

    def expire(self, now_ms: int, settings: QueueSettings, *, may_die: bool = True) -> list[Dead]:
        self._in_flight.wake(now_ms)
        dead: list[Dead] = []
        for entry in self._in_flight.expired(now_ms, _EXPIRE_AT_ONCE):
            if may_die and entry.attempts >= settings.max_attempts:
                self._in_flight.cut(entry, entry.start, entry.end)
                dead.append(entry.dead("max_attempts", entry.error or LEASE_EXPIRED))
            else:
                self._in_flight.change(entry, EXPIRED, entry.time_ms)
        return dead

    def next_time_ms(self) -> int | None:
        return self._in_flight.next_time_ms()

    # all below

    def settle_below(self, offset: int) -> int:
        if offset <= self._floor:
            return 0
        self.events.append(SettledBelow(self.group_id, offset))
        return self._drop_below(offset)

    def _drop_below(self, offset: int) -> int:
        gone = sum(part.end - part.start for part in self._in_flight.cut_all(0, offset))
        gone += sum(ready_queue.drop_ready_below(offset) for ready_queue in self._in_flight.ready_queues)
        self._positions = [max(position, offset) for position in self._positions]
        self._floor = max(self._floor, offset)
        return gone

    def lowest_unsettled(self, *, newest: Sequence[int] | None = None, end: int = 0) -> int:
        lowest = self._in_flight.unsettled.lowest
        positions = self._taken_positions()
        if newest is not None and not self.in_offset_order:
            positions = [max(at, end) if at >= last else at for at, last in zip(positions, newest, strict=True)]
        return min(positions) if lowest is None else min(lowest, *positions)

    def lowest_unsettled_without(self, runs: Sequence[Run]) -> int:
        """What `lowest_unsettled` would be if these messages were settled. Costs a step per run."""
        without, positions = IntervalSet(runs), self._taken_positions()
        for entry in self._in_flight.unsettled:
            for start, _ in without.gaps(entry.start, entry.end):
                return min(start, *positions)
        return min(positions)

    def settled(self, runs: Sequence[Run], level: int) -> IntervalSet:
        taken = self._taken_positions()[self._queue_of_level[level]]
        found = IntervalSet((start, min(end, taken)) for start, end in runs if start < taken)
        for start, end in runs:
            for entry in self._in_flight.unsettled.overlapping(start, end):
                found.remove(entry.start, entry.end)
        return found

    # counts

    def held(self, offset: int, limit: int) -> tuple[list[HeldRun], int | None]:
        found: list[HeldRun] = []
        unsettled = self._in_flight.unsettled
        entries = unsettled.overlapping(offset, offset + 1) or unsettled.following(offset)
        while entries:
            for entry in entries:
                if limit <= 0:
                    return found, entry.start
                if entry.state == LEASED:
                    start = max(offset, entry.start)
                    end = min(entry.end, start + limit)
                    limit -= end - start
                    found.append(
                        HeldRun(
                            start,
                            end,
                            entry.level,
                            entry.attempts,
                            entry.first_delivered_ms,
                            entry.lease,
                            entry.consumer,
                            entry.time_ms,
                        )
                    )
                    if end < entry.end:
                        return found, end
            entries = unsettled.following(entries[-1].end)
        return found, None

    def held_by(self) -> dict[str, int]:
        return dict(self._in_flight.held)

    def counts(self) -> Counts:
        in_flight = self._in_flight
        return Counts(
            sum(in_flight.leased),
            in_flight.retrying,
            sum(ready_queue.ready_count for ready_queue in in_flight.ready_queues),
            tuple(in_flight.leased),
        )

    def blocked_keys(self, now_ms: int, limit: int) -> list[tuple[bytes, int]]:
        return []

    def blocked(self, now_ms: int, limit: int) -> list[BlockedKey]:
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
                replay(self._in_flight, event)
                if isinstance(event, Leased):
                    self._positions = [max(pair) for pair in zip(self._positions, event.positions, strict=True)]

    def snapshot(self) -> Iterator[bytes]:
        return unordered_snapshot.snapshot(
            self._snapshot_positions(), self._queue_of_level, self._in_flight.unsettled
        )

    def _snapshot_positions(self) -> list[int]:
        """What is in no event yet is not in the snapshot either: if it is never written, it is read again."""
        positions = self._taken_positions()
        for _, _, runs in self._unwritten.values():
            for run in runs:
                if not run.previous_lease:
                    ready_queue = self._queue_of_level[run.level]
                    positions[ready_queue] = min(positions[ready_queue], run.start)
        return positions

    def restore(self, chunks: Sequence[bytes], ahead_ms: int = 0) -> None:
        positions, entries = unordered_snapshot.restored(chunks, ahead_ms)
        self._begin_at(0)
        self._positions = positions
        for chunk in entries:
            self._in_flight.load(chunk)


def _refused(start: int, end: int) -> Refused:
    what = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
    return Refused(start, end, LeaseLost(message=what))
