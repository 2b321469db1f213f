"""Leasing messages of lanes: due retries first, then what was never delivered, the oldest first. Pure."""

from heapq import heappop, heappush
from operator import attrgetter

from quiver.queues.journal.events import LeasedRun
from quiver.queues.state.keyed.lane import (
    DUE,
    HELD,
    LEVEL_BITS,
    LEVEL_MASK,
    NOTHING,
    READY,
    Lane,
    Lease,
    LeasedRange,
)
from quiver.queues.state.keyed.lane_table import LaneTable
from quiver.queues.state.port import KeyLimit, Run, Taken
from quiver.structures.offset_ranges import merged, ranges_of

_SPARE_LANES = 2
"""With this many lanes per wanted message, enough is left for other consumers."""
_start = attrgetter("start")


class LaneTaker:
    """One call of `take`.

    Messages in offset order make few runs, which costs least; but they would take a little of every key, and leave
    no key to other consumers. So when keys are few, they are taken one after the other, each with all its messages of
    the level.
    """

    __slots__ = ("_deadline_ms", "_delivered_ms", "_lease", "_table")

    def __init__(self, table: LaneTable, lease: Lease, *, delivered_ms: int, deadline_ms: int) -> None:
        self._table = table
        self._lease = lease
        self._delivered_ms = delivered_ms
        self._deadline_ms = lease.deadline_ms = lease.deadline_ms if lease.taken else deadline_ms

    def take(self, level: int, count: int) -> list[Taken]:
        again = self._take_again(level, count)
        return self._leased(level, again, self._take_fresh(level, count - _count(again)))

    def take_keys(self, level: int, count: int, keys: KeyLimit) -> list[Taken]:
        """Of a few keys, one after the other."""
        if keys.key is not None:
            return self._take_key(level, count, keys.key)
        again = self._take_again(level, count, keys)
        return self._leased(level, again, self._take_fresh_keys(level, count - _count(again), keys))

    def _leased(self, level: int, again: list[Taken], fresh: list[Run]) -> list[Taken]:
        table, lease = self._table, self._lease
        taken = again + [Taken(start, end, level, 1, self._delivered_ms, "") for start, end in merged(fresh)]
        if taken:
            table.leases[lease.id] = lease
            lease.ranges.sort(key=_start)
            table.watch(lease, self._deadline_ms)
        return taken

    # what was delivered before

    def _take_again(self, level: int, count: int, keys: KeyLimit | None = None) -> list[Taken]:
        taken: list[Taken] = []
        while count > 0 and (keys is None or keys.left > 0) and (due := self._table.take_due(level)) is not None:
            lane, offered = due
            wanted = min(count, offered)
            if keys is not None and lane.key is None:
                wanted = min(wanted, keys.left)
            if keys is not None:
                keys.left -= wanted if lane.key is None else 1
            count -= self._take_due_lane(lane, level, wanted, taken)
        return taken

    def _take_due_lane(self, lane: Lane, level: int, count: int, taken: list[Taken]) -> int:
        """Adds to what was taken; returns how many messages that was."""
        added = 0
        for part in self._lease_again(lane, count):
            added += part.count
            run = Taken(part.start, part.end, level, part.attempts + 1, part.first_ms, part.error)
            if taken and taken[-1].end == run.start and taken[-1][2:] == run[2:]:
                run = run._replace(start=taken.pop().start)
            taken.append(run)
        return added

    def _take_key(self, level: int, count: int, key: bytes) -> list[Taken]:
        again: list[Taken] = []
        fresh: list[Run] = []
        lane = self._table.lanes.get(key)
        if lane is not None and lane.state == DUE and lane.head is not None and lane.head.level == level:
            offered = lane.offered
            self._table.withdraw(lane)
            self._take_due_lane(lane, level, min(count, offered), again)
        elif lane is not None and lane.state == READY and lane.front & LEVEL_MASK == level:
            fresh = self._take_lane(lane, level, min(count, lane.lead))
        return self._leased(level, again, fresh)

    def _lease_again(self, lane: Lane, count: int) -> list[LeasedRange]:
        """Leases the lane's first messages again. Those after them leave the expired lease; with a key, they wait
        for the first ones."""
        leased, part = [], lane.head
        while part is not None:
            following = part.next
            if count <= 0 and lane.key is None:
                self._table.pause(self._table.alone(part, part.start, part.end).lane, lane.time_ms)
            elif count <= 0:
                self._table.leave(part)
                self._table.trailing[lane] = None
            else:
                if part.count > count:
                    following = part.split(part.start + count)
                count -= part.count
                self._table.leave(part)
                self._table.retrying -= part.count
                part.first_ms = part.first_ms if part.attempts else self._delivered_ms
                self._hold(part)
                leased.append(part)
            part = following
        lane.deadline_ms = self._deadline_ms
        return leased

    # what was not

    def _take_fresh(self, level: int, count: int) -> list[Run]:
        ready, unkeyed = self._table.ready[level], self._table.unkeyed[level]
        if len(ready) >= _SPARE_LANES * count > 0:
            return self._take_in_order(level, count)
        taken: list[Run] = []
        while count > 0:
            lane = ready.first
            if unkeyed and (lane is None or unkeyed[0][0] < lane.front_offset):
                run = self._take_unkeyed(level, count, ready.lowest)
                taken.append(run)
                count -= run[1] - run[0]
            elif lane is not None:
                lead = min(count, lane.lead)
                taken += self._take_lane(lane, level, lead)
                count -= lead
            else:
                break
        return taken

    def _take_fresh_keys(self, level: int, count: int, keys: KeyLimit) -> list[Run]:
        """The keys whose first message is oldest; a message without a key counts as a key of its own."""
        ready, unkeyed = self._table.ready[level], self._table.unkeyed[level]
        taken: list[Run] = []
        while count > 0 and keys.left > 0:
            lane = ready.first
            if unkeyed and (lane is None or unkeyed[0][0] < lane.front_offset):
                start, end = self._take_unkeyed(level, min(count, keys.left), ready.lowest)
                taken.append((start, end))
                count -= end - start
                keys.left -= end - start
            elif lane is not None:
                lead = min(count, lane.lead)
                taken += self._take_lane(lane, level, lead)
                count -= lead
                keys.left -= 1
            else:
                break
        return taken

    def _take_in_order(self, level: int, count: int) -> list[Run]:
        """Message by message, whatever their keys. There are more lanes than messages are wanted."""
        taken: list[Run] = []
        unkeyed, chosen = self._table.unkeyed[level], dict[Lane, int]()
        lanes = iter(self._table.ready[level])
        following: list[tuple[int, Lane]] = []
        fresh = next(lanes)
        while count > 0:
            is_fresh = not following or fresh.front_offset < following[0][0]
            offset, lane = (fresh.front_offset, fresh) if is_fresh else following[0]
            if unkeyed and unkeyed[0][0] < offset:
                taken.append(self._take_unkeyed(level, count, offset))
                count -= taken[-1][1] - taken[-1][0]
                continue
            number = chosen[lane] = chosen.get(lane, 0) + 1
            count -= 1
            if is_fresh:
                fresh = next(lanes, fresh)
            else:
                heappop(following)
            if number < lane.lead:
                heappush(following, (lane.offset_at(number), lane))
        for lane, number in chosen.items():
            taken += self._take_lane(lane, level, number)
        return taken

    def _take_unkeyed(self, level: int, count: int, front: int) -> Run:
        """From the first run of messages without a key, up to where a lane comes first."""
        runs = self._table.unkeyed[level]
        start, end = runs.popleft()
        stop = min(end, start + count) if front == NOTHING else min(end, start + count, front)
        if stop < end:
            runs.appendleft((stop, end))
        self._table.available[level] -= stop - start
        lane = Lane(None, state=HELD, deadline_ms=self._deadline_ms)
        self._table.loose[lane] = None
        self._deliver(lane, start, stop, level, None)
        return start, stop

    def _take_lane(self, lane: Lane, level: int, count: int) -> list[Run]:
        table = self._table
        table.withdraw(lane)
        places = lane.take_waiting(count)
        lane.deadline_ms = self._deadline_ms
        first, last_place = places[0] >> LEVEL_BITS, places[-1] >> LEVEL_BITS
        is_one_run = last_place - first == count - 1
        runs = [(first, last_place + 1)] if is_one_run else ranges_of(place >> LEVEL_BITS for place in places)
        last: LeasedRange | None = None
        for start, end in runs:
            last = self._deliver(lane, start, end, level, last)
        table.block(lane)
        return runs

    def _deliver(self, lane: Lane, start: int, end: int, level: int, before: LeasedRange | None) -> LeasedRange:
        part = LeasedRange(start, end - start, level, 0, self._delivered_ms, lane, is_unwritten=True)
        if before is None:
            lane.head = part
            self._table.unsettled.add(start, lane)
        else:
            before.next = part
        self._table.read_ahead -= part.count
        self._hold(part)
        return part

    def _hold(self, part: LeasedRange) -> None:
        self._table.hold(part, self._lease)
        self._lease.ranges.append(part)
        self._lease.taken.append(
            LeasedRun(part.start, part.end, part.level, part.attempts + 1, part.first_ms, 0, part.lane.key)
        )


def _count(taken: list[Taken]) -> int:
    return sum(run.end - run.start for run in taken)
