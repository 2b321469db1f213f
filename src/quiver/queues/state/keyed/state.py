"""A queue group that is ordered by key, in one partition: every key is a lane, delivered and settled in order. Pure.

A lane exists while something of its key is in flight, waits for a retry, or was read and not delivered. It has the
level of its first message and one lease at a time. What the log holds after lanes that are blocked is read ahead
up to a limit; then `position` stays where it is.

Of a run that is given back or expires, only the first message is counted: those after it wait for their turn.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

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
from quiver.queues.state.keyed.expiry import ExpiryRules, end_leases, expire, held_lanes, settle_below
from quiver.queues.state.keyed.feed import feed
from quiver.queues.state.keyed.lane import HELD, NOTHING, KeyLease, Lane, Lease, LeasedKeys, LeasedRange
from quiver.queues.state.keyed.lane_settler import LaneSettler, take_back
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.keyed.lane_taker import LaneTaker
from quiver.queues.state.keyed.recovery import LaneRecovery
from quiver.queues.state.keyed.reopening import LeveledRun, is_held, reopen
from quiver.queues.state.keyed.snapshot import restored, snapshot
from quiver.queues.state.port import (
    BlockedKey,
    Counts,
    Dead,
    HeldRun,
    LeaseTerms,
    Run,
    Settlement,
    StoredRun,
    Taken,
)
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import merged


class LaneState:
    """A GroupState; see there for what each verb means. What comes from the journal is made into lanes when it is
    first needed."""

    def __init__(self, group_id: int, start: int, *, read_ahead_limit: int = 1_000_000) -> None:
        self.group_id = group_id
        self.events: list[msgspec.Struct] = []
        self._read_ahead_limit = read_ahead_limit
        self._recovery: LaneRecovery | None = None
        self._begin(LaneTable(), start, IntervalSet())

    def _begin(self, table: LaneTable, position: int, passed: IntervalSet) -> None:
        self._recovery = None
        self._lanes = table
        self._position = position
        self._settled_below = 0
        self._passed = passed
        """Delivered or settled before a restart, and skipped when they are read again. Replaced, never changed."""
        self._unwritten: dict[int, Lease] = {}
        """Leases with messages that are in no event yet."""

    def _open(self) -> LaneTable:
        if self._recovery is not None:
            table, settled_below = LaneTable(), self._recovery.settled_below
            self._begin(table, *self._recovery.build(table))
            self._settled_below = settled_below
        return self._lanes

    # reading ahead

    def position(self, level: int) -> int:
        self._open()
        return self._position

    def feed(self, level: int, runs: Sequence[StoredRun], position: int) -> None:
        """Takes only as many as there is room for; `position` is where it stopped."""
        table = self._open()
        for run in runs:
            for start, end in self._passed.gaps(max(run.start, self._position), run.end):
                stop = min(end, start + max(0, self._read_ahead_limit - table.read_ahead))
                keys = run.keys[start - run.start : stop - run.start] or (None,) * (stop - start)
                feed(table, start, run.level, keys)
                if stop < end:
                    self._position = stop
                    return
        self._read_up_to(position)

    def _read_up_to(self, position: int) -> None:
        self._position = self._passed.first_gap(max(position, self._position))
        if self._passed and self._passed.next_member(self._position) is None:
            self._passed = IntervalSet()

    # taking

    def available(self, now_ms: int) -> list[int]:
        self._open().wake(now_ms)
        return list(self._open().available)

    def take(
        self, level: int, count: int, terms: LeaseTerms, now_ms: int, delivered_ms: int | None = None
    ) -> list[Taken]:
        table = self._open()
        table.wake(now_ms)
        held = table.leases.get(terms.lease) or Lease(terms.lease, terms.consumer)
        delivered_ms = now_ms if delivered_ms is None else delivered_ms
        taker = LaneTaker(table, held, delivered_ms=delivered_ms, deadline_ms=terms.deadline_ms)
        taken = taker.take(level, count) if terms.keys is None else taker.take_keys(level, count, terms.keys)
        if taken:
            self._unwritten[terms.lease] = held
        return taken

    def lease_taken(self) -> None:
        """Adds an event for everything that was taken and is in no event yet: the position is beyond all of it."""
        unwritten, self._unwritten = self._unwritten, {}
        position = self._floor()
        for held in unwritten.values():
            self.events.append(
                Leased(self.group_id, held.id, held.consumer, held.deadline_ms, held.taken, [position])
            )
            self._lanes.written(held)

    def _floor(self) -> int:
        """The lowest offset that was never delivered."""
        return self._open().floor(self._position)

    # settling

    def ack(self, lease: int, runs: Sequence[Run]) -> Settlement:
        settler = LaneSettler(self._open(), lease, runs)
        settler.ack()
        if settler.done:
            self.events.append(Acked(self.group_id, lease, merged(settler.done)))
        return settler.settlement()

    def nack(self, lease: int, runs: Sequence[Run], policy: RetryPolicy) -> Settlement:
        settler = LaneSettler(self._open(), lease, runs)
        settler.nack(policy)
        self._returned(lease, settler.returned, policy.error)
        self._returned(lease, settler.followers, "")
        return settler.settlement()

    def reject(self, lease: int, runs: Sequence[Run], reason: str) -> Settlement:
        settler = LaneSettler(self._open(), lease, runs)
        settler.reject(reason)
        return settler.settlement()

    def extend(self, lease: int, runs: Sequence[Run], deadline_ms: int) -> Settlement:
        settler = LaneSettler(self._open(), lease, runs)
        settler.extend(deadline_ms)
        if settler.done:
            self.events.append(Extended(self.group_id, lease, merged(settler.done), deadline_ms))
        return settler.settlement()

    def drop(self, lease: int, runs: Sequence[Run], reason: str) -> list[Dead]:
        settler = LaneSettler(self._open(), lease, runs)
        settler.drop(reason)
        return list(settler.settlement().dead)

    def take_back(self, undo: Any) -> None:
        for saved in reversed(undo):
            if saved.table is self._lanes and saved.is_above(self._settled_below):
                take_back(saved)

    # time

    def end_leases(self, consumer: str) -> None:
        for ended in end_leases(self._open(), consumer):
            runs = merged((run.start, run.end) for run in ended.runs)
            self.events.append(Extended(self.group_id, ended.lease, runs, 0))
            self._returned(ended.lease, ended.runs, ended.error)

    def expire(self, now_ms: int, settings: QueueSettings, *, may_die: bool = True) -> list[Dead]:
        self._open().wake(now_ms)
        dead: list[Dead] = []
        rules = ExpiryRules(settings.count_expired, settings.max_attempts if may_die else None)
        for ended in expire(self._open(), now_ms, rules):
            self._returned(ended.lease, ended.runs, ended.error)
            dead += ended.dead
        return dead

    def next_time_ms(self) -> int | None:
        times = (self._open().next_pause_ms(), self._open().next_deadline_ms())
        return min((time for time in times if time is not None), default=None)

    def _returned(self, lease: int, runs: list[ReturnedRun], error: str) -> None:
        if runs:
            self.events.append(Returned(self.group_id, lease, runs, error))

    # all below

    def settle_below(self, offset: int) -> int:
        table = self._open()
        if offset <= self._settled_below:
            return 0
        self._settled_below = offset
        self.events.append(SettledBelow(self.group_id, offset))
        gone = settle_below(table, offset)
        self._read_up_to(offset)
        return gone

    def lowest_unsettled(self, *, newest: Sequence[int] | None = None, end: int = 0) -> int:
        floor, lowest = self._floor(), self._lanes.unsettled.lowest
        return floor if lowest == NOTHING else min(floor, lowest)

    def settled(self, runs: Sequence[Run], level: int) -> IntervalSet:
        table = self._open()
        found = IntervalSet((start, min(end, self._position)) for start, end in runs if start < self._position)
        for start, end in runs:
            for passed in self._passed.within(start, end):
                found.add(*passed)
        for start, end in table.unsettled_ranges():
            found.remove(start, end)
        return found

    def reopen(self, key: bytes, runs: Sequence[LeveledRun], terms: LeaseTerms, now_ms: int) -> int | None:
        """Those of these messages of a key that are settled are available again; returns how many, None while a
        consumer holds messages of the key. The journal has it as a lease that was given back at once."""
        table = self._open()
        if is_held(table, key):
            return None
        found = [
            LeveledRun(start, end, level)
            for level in sorted({run.level for run in runs})
            for start, end in self.settled([run[:2] for run in runs if run.level == level], level)
            if start >= self._settled_below
        ]
        if found:
            reopen(table, key, found, now_ms)
            leased = [LeasedRun(start, end, level, 1, now_ms, 0, key) for start, end, level in found]
            lease = Leased(self.group_id, terms.lease, terms.consumer, terms.deadline_ms, leased, [self._floor()])
            self.events.append(lease)
            self._returned(terms.lease, [ReturnedRun(start, end, 0, 0) for start, end, _ in found], "")
        return sum(end - start for start, end, _ in found)

    # counts

    def held_by(self) -> dict[str, int]:
        return dict(self._open().held)

    def counts(self) -> Counts:
        table = self._open()
        return Counts(sum(table.leased), table.retrying, table.read_ahead, tuple(table.leased))

    def blocked_keys(self, now_ms: int, limit: int) -> list[tuple[bytes, int]]:
        return [(key, waiting) for key, waiting, _ in self.blocked(now_ms, limit)]

    def blocked(self, now_ms: int, limit: int) -> list[BlockedKey]:
        self._open().wake(now_ms)
        return self._lanes.blocked_keys(limit)

    def held(self, offset: int, limit: int) -> tuple[list[HeldRun], int | None]:
        found: list[HeldRun] = []
        for start, lane in self._open().unsettled.starting_at(offset):
            if limit <= 0:
                return found, start
            for part in lane.ranges():
                if part.lease is not None and not part.is_expired and lane.state == HELD:
                    limit -= part.count
                    found.append(_held_run(lane, part, part.lease))
        return found, None

    # who holds which key

    def key_lease(self, key: bytes, *, with_runs: bool = False) -> KeyLease | None:
        lane = self._open().lanes.get(key)
        head = None if lane is None or lane.state != HELD else lane.head
        if lane is None or head is None or head.lease is None or head.is_unwritten:
            return None
        runs = [(part.start, part.end) for part in lane.ranges() if part.lease is head.lease] if with_runs else []
        return KeyLease(head.lease.id, head.start, head.attempts + 1, lane.deadline_ms, runs)

    def leased_keys(self, lease: int) -> LeasedKeys | None:
        """None when the lease has expired, or everything in it is settled."""
        held = self._open().leases.get(lease)
        lanes = [] if held is None else held_lanes(held)
        if not lanes:
            return None
        runs = [(lane.head.start, lane.head.start + 1 if lane.key else lane.head.end) for lane in lanes if lane.head]
        return LeasedKeys(runs, min(lane.deadline_ms for lane in lanes))

    # the journal

    def apply(self, event: msgspec.Struct) -> None:
        if isinstance(event, Rewound):
            self._begin(LaneTable(), event.offset, IntervalSet())
            return
        if self._recovery is None:
            self._recovery = restored(list(self.snapshot()))
        self._recovery.apply(event)

    def snapshot(self) -> Iterator[bytes]:
        return snapshot(self._open(), self._position, self._passed)

    def restore(self, chunks: Sequence[bytes], ahead_ms: int = 0) -> None:
        self._recovery = restored(chunks, ahead_ms)


def _held_run(lane: Lane, part: LeasedRange, lease: Lease) -> HeldRun:
    return HeldRun(
        part.start,
        part.end,
        part.level,
        part.attempts + 1,
        part.first_ms,
        lease.id,
        lease.consumer,
        lane.deadline_ms,
        lane.key,
    )
