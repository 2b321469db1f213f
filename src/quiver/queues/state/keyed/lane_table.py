"""All lanes of a group in one partition: which are available, which are held, and how many messages of each. Pure.

A lane changes its place in steps: `withdraw` it, change it, `offer` it. What was delivered changes hands through
`hold`, `expired`, `resume`, `give_back` and `remove`, which keep the counts.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush, nlargest
from itertools import chain, islice

from quiver.queues.state.keyed.lane import (
    DUE,
    HELD,
    LEVEL_BITS,
    LEVEL_MASK,
    NOTHING,
    PAUSED,
    READY,
    Lane,
    Lease,
    LeasedRange,
)
from quiver.queues.state.keyed.lane_index import LaneIndex
from quiver.queues.state.port import LEVELS, BlockedKey, Run
from quiver.structures.ordered_pairs import LOWEST, OrderedPairs

_WAKE_AT_ONCE = 2_000
_LOOK_AT = 20_000


class LaneTable:
    def __init__(self) -> None:
        self.lanes: dict[bytes, Lane] = {}
        self.loose: dict[Lane, None] = {}
        """Delivered messages without a key."""
        self.unkeyed: list[deque[Run]] = [deque() for _ in range(LEVELS)]
        """Messages without a key that wait."""
        self.leases: dict[int, Lease] = {}
        self.available = [0] * LEVELS
        self.leased = [0] * LEVELS
        self.held: dict[str, int] = {}
        self.retrying = 0
        self.read_ahead = 0
        self.ready = [LaneIndex() for _ in range(LEVELS)]
        """By level and first waiting message: lanes with nothing before it."""
        self.blocked = LaneIndex()
        """By first waiting message: lanes with something before it."""
        self.unsettled = LaneIndex()
        """By first delivered message."""
        self.timers: list[tuple[int, int]] = []
        """Times, and the ids of leases."""
        self.trailing: dict[Lane, None] = {}
        """Lanes that may have messages which were given back only because earlier ones were."""
        self._pauses = OrderedPairs()
        """Times, and the first offsets of lanes."""
        self._due = [OrderedPairs() for _ in range(LEVELS)]

    def __del__(self) -> None:
        """Cuts the references between lanes and their ranges, which the garbage collector does not track."""
        for lane in chain(self.lanes.values(), self.loose):
            for part in lane.ranges():
                part.next = None
            lane.head = None
        for lease in self.leases.values():
            lease.ranges.clear()

    # lanes

    def offer(self, lane: Lane) -> None:
        """Lists a lane by the state of its first message."""
        head = lane.head
        if head is not None:
            if head.lease is None:
                self.pause(lane, head.due_ms)
            else:
                lane.state = HELD
            return
        self.trailing.pop(lane, None)
        if lane.front != NOTHING:
            level = lane.front & LEVEL_MASK
            self.blocked.remove(lane.front_offset)
            self.ready[level].add(lane.front_offset, lane)
            lane.state, lane.offered = READY, lane.lead
            self.available[level] += lane.lead
        elif lane.key is None:
            self.loose.pop(lane, None)
        elif self.lanes.get(lane.key) is lane:
            del self.lanes[lane.key]

    def withdraw(self, lane: Lane) -> None:
        """Nothing of a lane is available until it is offered again. One that was ready must be blocked then."""
        self.unlist(lane)
        lane.state = HELD

    def unlist(self, lane: Lane) -> None:
        """Called before the first message of a lane changes."""
        head, level = lane.head, lane.front & LEVEL_MASK
        if head is not None:
            level = head.level
            if lane.state == PAUSED:
                self._pauses.remove(lane.time_ms, head.start)
            elif lane.state == DUE:
                self._due[level].remove(lane.time_ms, head.start)
        elif lane.state == READY and lane.front != NOTHING:
            self.ready[level].remove(lane.front_offset)
        self.available[level] -= lane.offered
        lane.offered = 0

    def block(self, lane: Lane) -> None:
        """Notes what waits in a lane that is not ready."""
        if lane.front != NOTHING:
            self.blocked.add(lane.front_offset, lane)

    def pause(self, lane: Lane, until_ms: int) -> None:
        assert lane.head is not None, "only what was delivered is paused"
        lane.state, lane.time_ms = PAUSED, until_ms
        self._pauses.add(until_ms, lane.head.start)

    def wake(self, now_ms: int) -> None:
        """Makes lanes that are due now available, some thousands at a time."""
        if not len(self._pauses):
            return
        for time_ms, start in self._pauses.starting_at(LOWEST, LOWEST, _WAKE_AT_ONCE):
            if time_ms > now_ms:
                break
            self._pauses.remove(time_ms, start)
            lane = self.unsettled.get(start)
            level, count = _due_count(lane, now_ms)
            lane.state, lane.offered = DUE, count
            self.available[level] += count
            self._due[level].add(time_ms, start)

    def next_pause_ms(self) -> int | None:
        first = self._pauses.starting_at(LOWEST, LOWEST, 1)
        return first[0][0] if first else None

    def take_due(self, level: int) -> tuple[Lane, int] | None:
        """The lane that has been due longest, and how many of its messages are."""
        first = self._due[level].starting_at(LOWEST, LOWEST, 1)
        if not first:
            return None
        lane = self.unsettled.get(first[0][1])
        offered = lane.offered
        self.withdraw(lane)
        return lane, offered

    def floor(self, position: int) -> int:
        """The lowest offset that was never delivered, of what waits and what begins at the position."""
        fronts = [index.lowest for index in (*self.ready, self.blocked)]
        fronts += [runs[0][0] for runs in self.unkeyed if runs]
        return min((front for front in fronts if front != NOTHING), default=position)

    def unsettled_ranges(self) -> Iterator[Run]:
        """Everything that was read and is not settled, in any order."""
        for lane in chain(self.lanes.values(), self.loose):
            yield from ((part.start, part.end) for part in lane.ranges())
            yield from ((place >> LEVEL_BITS, (place >> LEVEL_BITS) + 1) for place in lane.waiting())
        yield from chain.from_iterable(self.unkeyed)

    def blocked_keys(self, limit: int) -> list[BlockedKey]:
        """Keys whose messages wait for an earlier one that is leased or paused, and how many; most first.

        When there are very many, they are the largest of those that have waited longest.
        """
        stuck = chain(islice(self.blocked, _LOOK_AT), islice(self.trailing, _LOOK_AT))
        keys = {
            lane.key: BlockedKey(lane.key, _waiting_after(lane), lane.head.start)
            for lane in stuck
            if lane.key is not None and lane.head is not None
        }
        return nlargest(limit, (key for key in keys.values() if key.waiting), key=lambda key: key.waiting)

    # what was delivered

    def hold(self, part: LeasedRange, lease: Lease) -> None:
        """Leases a range that is in no lease."""
        part.lease, part.due_ms, part.is_expired = lease, 0, False
        lease.open_count += part.count
        self._count_held(part, lease, part.count)

    def expired(self, part: LeasedRange, lease: Lease) -> None:
        """The lease has expired, and no other consumer got the messages yet."""
        self._count_held(part, lease, -part.count)
        self.retrying += part.count

    def resume(self, lane: Lane, lease: Lease) -> None:
        """The holder of an expired lease settles or extends after all: the lane is held again."""
        if lane.state == HELD:
            return
        self.withdraw(lane)
        for part in lane.ranges():
            if part.lease is not lease:
                break
            self.retrying -= part.count
            self._count_held(part, lease, part.count)
            if part.is_expired:
                part.is_expired = False
                part.attempts -= 1
        self.watch(lease, lane.deadline_ms)

    def give_back(self, part: LeasedRange, due_ms: int = 0) -> None:
        """Ends the lease of what is held."""
        assert part.lease is not None, "it is held"
        self._count_held(part, part.lease, -part.count)
        self.retrying += part.count
        part.due_ms = due_ms
        self.leave(part)
        if part is not part.lane.head:
            self.trailing[part.lane] = None

    def leave(self, part: LeasedRange) -> None:
        """Removes a range from the lease it is in, if any."""
        lease = part.lease
        if lease is not None:
            lease.open_count -= part.count
            if not lease.open_count and not lease.taken:
                self.leases.pop(lease.id, None)
                lease.timer_ms = 0
            part.lease = None

    def remove(self, part: LeasedRange) -> None:
        """Settles a range. Its lane must be offered again if its first message is not held."""
        lane = part.lane
        if part.lease is not None and lane.state == HELD:
            self._count_held(part, part.lease, -part.count)
        else:
            self.retrying -= part.count
        self.leave(part)
        self._unlink(part)

    def insert(self, part: LeasedRange) -> None:
        """Puts a range into its lane, by offset; the caller counts it."""
        lane, before = part.lane, part.lane.head
        if before is None or part.start < before.start:
            if before is not None:
                self.unsettled.remove(before.start)
            part.next, lane.head = before, part
            self.unsettled.add(part.start, lane)
            return
        while before.next is not None and before.next.start < part.start:
            before = before.next
        part.next, before.next = before.next, part

    def alone(self, part: LeasedRange, start: int, end: int) -> LeasedRange:
        """Just these messages as a range; without a key, in a lane of its own."""
        if start > part.start:
            part = part.split(start)
        if end < part.end:
            part.split(end)
        lane = part.lane
        if lane.key is None and (lane.head is not part or part.next is not None):
            self._unlink(part)
            own = Lane(None, state=lane.state, deadline_ms=lane.deadline_ms)
            part.lane = own
            self.loose[own] = None
            self.insert(part)
        return part

    def _unlink(self, part: LeasedRange) -> None:
        lane, is_first = part.lane, part is part.lane.head
        lane.unlink(part)
        if is_first:
            self.unsettled.remove(part.start)
            if lane.head is not None:
                self.unsettled.add(lane.head.start, lane)

    # leases

    def watch(self, lease: Lease, deadline_ms: int) -> None:
        """The deadlines of a lease are checked at that time, or earlier."""
        if not lease.timer_ms or deadline_ms < lease.timer_ms:
            lease.timer_ms = deadline_ms
            heappush(self.timers, (deadline_ms, lease.id))

    def next_deadline_ms(self) -> int | None:
        """When a lease may have expired, or earlier."""
        timers = self.timers
        while timers and ((lease := self.leases.get(timers[0][1])) is None or lease.timer_ms != timers[0][0]):
            heappop(timers)
        return timers[0][0] if timers else None

    def written(self, lease: Lease) -> None:
        """All of a lease is in an event now."""
        lease.taken = []
        for part in lease.ranges:
            part.is_unwritten = False
        if not lease.open_count:
            self.leases.pop(lease.id, None)

    def _count_held(self, part: LeasedRange, lease: Lease, count: int) -> None:
        self.leased[part.level] += count
        held = self.held.get(lease.consumer, 0) + count
        if held:
            self.held[lease.consumer] = held
        else:
            del self.held[lease.consumer]


def _waiting_after(lane: Lane) -> int:
    """Messages after those that are leased, or after the one that is not due yet."""
    if lane.state == HELD:
        return lane.waiting_count + sum(part.count for part in lane.ranges() if part.lease is None)
    if lane.state == PAUSED:
        return lane.waiting_count + sum(part.count for part in lane.ranges()) - 1
    return 0


def _due_count(lane: Lane, now_ms: int) -> tuple[int, int]:
    """The level of a lane that is due, and how many of its first messages have it and are due too."""
    part = lane.head
    assert part is not None, "it was delivered"
    level, count = part.level, 0
    while part is not None and part.level == level and part.due_ms <= now_ms:
        count += part.count
        part = part.next
    return level, count
