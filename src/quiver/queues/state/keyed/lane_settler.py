"""Settling messages of lanes: in order, and the first one given back gives back the rest. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quiver.model.errors import LeaseLost, QuiverError, SettleInOrder
from quiver.queues.journal.events import ReturnedRun
from quiver.queues.state.keyed.lane import HELD, NOTHING, READY, Lane, Lease, LeasedRange
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.keyed.runs import merged_dead
from quiver.queues.state.port import Dead, Refused, Run, Settlement
from quiver.queues.state.retry_policy import RetryPolicy
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import merged


class Saved(NamedTuple):
    """A lane's messages as they were before a settlement changed them."""

    table: LaneTable
    lane: Lane
    lease: Lease
    deadline_ms: int
    ranges: list[tuple[int, int, int, int, int, str]]
    """Start, end, level, attempts, first delivery and error of each."""

    def is_above(self, offset: int) -> bool:
        return all(start >= offset for start, *_ in self.ranges)


class LaneSettler:
    """One call for messages of one lease."""

    def __init__(self, table: LaneTable, lease: int, runs: Sequence[Run]) -> None:
        self._table = table
        self._lease = table.leases.get(lease)
        self._runs = runs
        self._refused: list[Refused] = []
        self._saved: list[Saved] = []
        self._given_back: set[LeasedRange] = set()
        self.done: list[Run] = []
        self.returned: list[ReturnedRun] = []
        self.followers: list[ReturnedRun] = []
        """Given back only because messages before them were."""
        self.dead: list[Dead] = []
        self.until_ms: int | None = None
        self._due: dict[int, int] = {}
        """By attempts: the same time for all messages with as many."""

    def settlement(self) -> Settlement:
        return Settlement(self._refused, merged_dead(self.dead), self.until_ms, self._saved)

    def ack(self) -> None:
        for start, end, part in self._parts():
            if self._is_first(start, end, part):
                self._remove(part, start, end)

    def reject(self, reason: str) -> None:
        for start, end, part in self._parts():
            if self._is_first(start, end, part):
                self._die(self._remove(part, start, end), 1, "rejected", reason)

    def drop(self, reason: str) -> None:
        """In any order, and this delivery does not count."""
        for start, end, part in self._parts():
            self._die(self._remove(part, start, end), 0, reason, part.error)

    def extend(self, deadline_ms: int) -> None:
        """A key has one lease: all of it is extended."""
        for start, end, part in self._parts():
            lane = self._claim(part, start, end).lane
            self._save(lane, [])
            lane.deadline_ms = deadline_ms
            self.done += ((each.start, each.end) for each in lane.ranges() if each.lease is self._lease)
            self._table.watch(self._held, deadline_ms)
            self.until_ms = deadline_ms

    def nack(self, policy: RetryPolicy) -> None:
        for start, end, part in self._parts():
            first = self._claim(part, start, end if part.lane.key is None else start + 1)
            self._give_back([first, *self._after(first)], policy)

    # the steps

    @property
    def _held(self) -> Lease:
        assert self._lease is not None, "only a lease that is there has parts"
        return self._lease

    def _parts(self) -> Iterator[tuple[int, int, LeasedRange]]:
        """What of the runs the lease has, part by part in offset order; the rest is refused."""
        lease, place = self._lease, NOTHING
        known = () if lease is None else lease.ranges
        for start, end in merged(self._runs):
            while start < end:
                place = 0 if lease is None else lease.find(start, place)
                part = known[place] if place < len(known) else None
                if part is None or start < part.start:
                    stop = end if part is None else min(end, part.start)
                    self._refuse(start, stop, _lost(start, stop))
                else:
                    stop = min(end, part.end)
                    if part.lease is lease:
                        yield start, stop, part
                    elif part not in self._given_back:
                        self._refuse(start, stop, _lost(start, stop))
                start = stop

    def _is_first(self, start: int, end: int, part: LeasedRange) -> bool:
        """Whether nothing of the key is open before these messages; refuses them otherwise."""
        head = part.lane.head
        if part.lane.key is None or (part is head and start == part.start):
            return True
        assert head is not None, "the part is in its lane"
        self._refuse(start, end, SettleInOrder(earlier=head.start, offset=start))
        return False

    def _refuse(self, start: int, end: int, error: QuiverError) -> None:
        self._refused.append(Refused(start, end, error))

    def _claim(self, part: LeasedRange, start: int, end: int) -> LeasedRange:
        """Just these messages, in a lane that is held; a lease that has expired holds it again."""
        table, lane = self._table, part.lane
        if lane.key is None and lane.state != HELD:
            table.unlist(lane)
            part = table.alone(part, start, end)
            if part.lane is not lane:
                table.pause(lane, lane.time_ms)
        table.resume(part.lane, self._held)
        return table.alone(part, start, end)

    def _remove(self, part: LeasedRange, start: int, end: int) -> LeasedRange:
        part = self._claim(part, start, end)
        lane = part.lane
        self._save(lane, [part])
        self._table.remove(part)
        if lane.lease is None:
            self._table.offer(lane)
        self.done.append((start, end))
        return part

    def _after(self, first: LeasedRange) -> list[LeasedRange]:
        """The ranges of the lease in the lane after a range."""
        found, part = [], first.next
        while part is not None and part.lease is self._lease:
            found.append(part)
            part = part.next
        return found

    def _give_back(self, ranges: list[LeasedRange], policy: RetryPolicy) -> None:
        """The first one as asked for; the others only because they must not overtake it."""
        first, *others = ranges
        lane = first.lane
        self._save(lane, ranges)
        self._given_back.update(ranges)
        attempts = first.attempts + policy.is_counted
        if policy.is_last(attempts):
            self._table.remove(first)
            self._die(first, 1, "max_attempts", policy.error or first.error)
        else:
            first.attempts, first.error = attempts, policy.error or first.error
            due_ms = self._due.setdefault(attempts, policy.due_ms(attempts))
            self._table.give_back(first, due_ms)
            self.until_ms = due_ms if self.until_ms is None else min(self.until_ms, due_ms)
            self.returned.append(ReturnedRun(first.start, first.end, attempts, due_ms))
        for part in others:
            self._table.give_back(part)
            self.followers.append(ReturnedRun(part.start, part.end, part.attempts, 0))
        if lane.lease is None:
            self._table.offer(lane)

    def _die(self, part: LeasedRange, delivery: int, reason: str, error: str) -> None:
        attempts = part.attempts + delivery
        self.dead.append(Dead(part.start, part.end, part.level, attempts, part.first_ms, reason, error))

    def _save(self, lane: Lane, ranges: list[LeasedRange]) -> None:
        saved = [(e.start, e.end, e.level, e.attempts, e.first_ms, e.error) for e in ranges]
        self._saved.append(Saved(self._table, lane, self._held, lane.deadline_ms, saved))


def _lost(start: int, end: int) -> LeaseLost:
    return LeaseLost(message=f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}")


def take_back(saved: Saved) -> None:
    """Undoes what a settlement did to a lane.

    Another consumer may have the key by now. If it has the same messages, it keeps them. If some are missing, they
    come first again, and what the other lease has of the key is given back: as after a restart.
    """
    table, lease = saved.table, saved.lease
    if not saved.ranges:
        if saved.lane.lease is lease:
            saved.lane.deadline_ms = saved.deadline_ms
            table.watch(lease, saved.deadline_ms)
        return
    lane = saved.lane if saved.lane.key is None else table.lanes.get(saved.lane.key, saved.lane)
    other = lane.lease
    if other is not None and other is not lease:
        if lane.key is None or _has_all(lane, saved):
            return
        table.resume(lane, other)
        for part in lane.ranges():
            if part.lease is other:
                table.give_back(part)
    if lane.head is None or lane.lease is lease or lane.head.start >= saved.ranges[0][0]:
        _put_back(table, lane, saved)


def _has_all(lane: Lane, saved: Saved) -> bool:
    known = IntervalSet((part.start, part.end) for part in lane.ranges())
    return all(known.covers(start, end) for start, end, *_ in saved.ranges)


def _put_back(table: LaneTable, lane: Lane, saved: Saved) -> None:
    if lane.key is None:
        table.loose[lane] = None
    else:
        table.lanes[lane.key] = lane
    was_ready = lane.state == READY
    table.resume(lane, saved.lease)
    lane.state = HELD
    if was_ready:
        table.block(lane)
    for part in lane.ranges():
        if part.lease is None and any(start <= part.start < end for start, end, *_ in saved.ranges):
            table.remove(part)
    for start, end, level, attempts, first_ms, error in saved.ranges:
        part = LeasedRange(start, end - start, level, attempts, first_ms, lane, error)
        table.insert(part)
        table.hold(part, saved.lease)
        saved.lease.add(part)
    lane.deadline_ms = saved.deadline_ms
    table.leases[saved.lease.id] = saved.lease
    table.watch(saved.lease, saved.deadline_ms)
