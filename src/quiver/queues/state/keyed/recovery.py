"""Lanes at start-up: what a snapshot and the events after it say of every unsettled message. Pure.

A snapshot may be ahead of the first events after it. Every event says what its messages are like afterwards, so
applying all of them restores the state of the group.
"""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from quiver.queues.journal.events import Acked, Died, Extended, Leased, Returned, Rewound, SettledBelow
from quiver.queues.state.keyed.lane import HELD, PAUSED, Lane, Lease, LeasedRange
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.port import LEASE_EXPIRED, Run
from quiver.structures.interval_set import IntervalSet
from quiver.structures.offset_ranges import merged_many

NO, EXPIRED, COUNTED = 0, 1, 2


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a delivered message."""

    level: int
    attempts: int
    first_ms: int
    error: str
    key: bytes | None
    lease: int
    """0 once it was given back."""
    deadline_ms: int
    due_ms: int = 0
    expiry: int = NO


class LaneRecovery:
    def __init__(self, start: int) -> None:
        self.records: dict[int, Record] = {}
        self.consumers: dict[int, str] = {}
        self.begin(start)

    def begin(self, offset: int) -> None:
        """Everything below is settled, and nothing more is known."""
        self.records.clear()
        self.consumers.clear()
        self.position = offset
        """Everything below was read, and is settled unless there is a record of it."""
        self.floor = offset
        """Everything below was delivered or settled."""
        self.settled_below = offset
        self.waiting: list[Run] = []
        """Below the position: what was read and not delivered."""
        self.delivered: list[Run] = []

    def apply(self, event: msgspec.Struct) -> None:
        match event:
            case Leased():
                self._lease(event)
            case Acked(_, _, runs):
                self._remove(runs)
            case Returned():
                self._give_back(event)
            case Extended():
                self._extend(event)
            case Died(_, dead):
                self._remove((each.start, each.end) for each in dead)
            case SettledBelow(_, offset):
                self.settled_below = max(self.settled_below, offset)
            case Rewound(_, offset):
                self.begin(offset)
            case _:
                raise ValueError(f"{type(event).__name__} is no event of lanes")

    def build(self, table: LaneTable) -> tuple[int, IntervalSet]:
        """Fills a new table; returns where reading continues, and what is skipped when it is read again."""
        builder = _Builder(table, self.records, self.consumers)
        for offset in sorted(offset for offset in self.records if offset >= self.settled_below):
            builder.add(offset)
        builder.finish()
        floor = max(self.floor, self.settled_below)
        waiting = IntervalSet(merged_many(self.waiting))
        waiting.remove(0, floor)
        read = [(0, floor), *waiting.gaps(floor, max(floor, self.position))]
        passed = IntervalSet(merged_many([*read, *self.delivered]))
        position = passed.first_gap(floor)
        passed.remove(0, position)
        return position, passed

    def _lease(self, event: Leased) -> None:
        self.consumers[event.lease] = event.consumer
        self.floor = max(self.floor, *event.positions)
        for run in event.runs:
            self.delivered.append((run.start, run.end))
            for offset in range(run.start, run.end):
                old = self.records.get(offset)
                error = "" if old is None else old.error
                self.records[offset] = Record(
                    run.level, run.attempt - 1, run.first_delivered_ms, error, run.key, event.lease, event.deadline_ms
                )

    def _remove(self, runs: Iterable[Run]) -> None:
        for start, end in runs:
            for offset in range(start, end):
                self.records.pop(offset, None)

    def _give_back(self, event: Returned) -> None:
        for run in event.runs:
            for offset in range(run.start, run.end):
                old = self.records.get(offset)
                if old is None or old.lease != event.lease:
                    continue
                if event.error == LEASE_EXPIRED and not run.due_ms:
                    is_counted = run.attempts > old.attempts or old.expiry == COUNTED
                    expiry, error = (COUNTED, old.error or LEASE_EXPIRED) if is_counted else (EXPIRED, old.error)
                    new = replace(old, attempts=run.attempts, error=error, expiry=expiry)
                else:
                    error = event.error or old.error
                    new = replace(old, attempts=run.attempts, error=error, expiry=NO, lease=0, due_ms=run.due_ms)
                self.records[offset] = new

    def _extend(self, event: Extended) -> None:
        for start, end in event.runs:
            for offset in range(start, end):
                old = self.records.get(offset)
                if old is not None and old.lease == event.lease:
                    attempts = old.attempts - (old.expiry == COUNTED)
                    new = replace(old, attempts=attempts, deadline_ms=event.deadline_ms, expiry=NO)
                    self.records[offset] = new


class _Builder:
    """Lanes from messages in offset order."""

    def __init__(self, table: LaneTable, records: dict[int, Record], consumers: dict[int, str]) -> None:
        self._table = table
        self._records = records
        self._consumers = consumers
        self._last: dict[bytes | None, LeasedRange] = {}
        """Of each key."""

    def add(self, offset: int) -> None:
        record = self._records[offset]
        last = self._last.get(record.key)
        if last is not None and last.end == offset and self._records[offset - 1] == record:
            last.count += 1
            return
        lane = self._lane(record)
        part = LeasedRange(offset, 1, record.level, record.attempts, record.first_ms, lane, record.error)
        part.due_ms, part.is_expired = record.due_ms, record.expiry == COUNTED
        if lane.head is None:
            lane.head, lane.deadline_ms = part, record.deadline_ms
            lane.state = HELD if record.lease and record.expiry == NO else PAUSED
            self._table.unsettled.add(offset, lane)
        elif last is not None:
            last.next = part
        if record.lease and self._goes_with(record, self._records[lane.head.start]):
            part.lease = self._lease(record.lease)
            part.lease.ranges.append(part)
        self._last[record.key] = part

    def _goes_with(self, record: Record, first: Record) -> bool:
        """Messages of an expired lease are in no lease once another consumer got a message before them."""
        return record.lease == first.lease and (record.expiry == NO) == (first.expiry == NO)

    def finish(self) -> None:
        for lane in (*self._table.lanes.values(), *self._table.loose):
            self._count(lane)
            if lane.head is not None and lane.head.next is not None:
                self._table.trailing[lane] = None
            if lane.lease is None:
                self._table.offer(lane)
            elif lane.state == PAUSED:
                self._table.pause(lane, lane.deadline_ms)
        for lease in self._table.leases.values():
            self._table.watch(lease, min(part.lane.deadline_ms for part in lease.ranges))

    def _count(self, lane: Lane) -> None:
        for part in lane.ranges():
            lease, is_expired = part.lease, part.is_expired
            if lease is None:
                self._table.retrying += part.count
                continue
            self._table.hold(part, lease)
            if lane.state == PAUSED:
                self._table.expired(part, lease)
                part.is_expired = is_expired

    def _lane(self, record: Record) -> Lane:
        if record.key is None:
            lane = Lane(None)
            self._table.loose[lane] = None
            return lane
        found = self._table.lanes.get(record.key)
        if found is None:
            found = self._table.lanes[record.key] = Lane(record.key)
        return found

    def _lease(self, id: int) -> Lease:
        lease = self._table.leases.get(id)
        if lease is None:
            lease = self._table.leases[id] = Lease(id, self._consumers.get(id, ""))
        return lease
