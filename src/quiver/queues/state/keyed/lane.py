"""What a lane is made of: messages that were delivered, messages that wait, and the lease that holds it. Pure."""

from array import array
from bisect import bisect_right, insort_right
from operator import attrgetter
from typing import NamedTuple

import msgspec

from quiver.queues.journal.events import LeasedRun

READY, HELD, PAUSED, DUE = 0, 1, 2, 3
"""What a lane's first message does: it was never delivered, is leased, waits until it is due, or is due again."""

NOTHING = -1
LEVEL_BITS = 3
LEVEL_MASK = 7
_COMPACT_AT = 1_024
_start = attrgetter("start")


class KeyLease(NamedTuple):
    """What a consumer holds of one key."""

    lease: int
    offset: int
    """Of the first message."""
    attempt: int
    """Of its delivery, from 1."""
    deadline_ms: int
    """By the clock of leases."""
    runs: list[tuple[int, int]]
    """All messages, if they were asked for."""


class LeasedKeys(NamedTuple):
    """What a lease still holds."""

    runs: list[tuple[int, int]]
    """The first message of each key, and all messages without a key."""
    deadline_ms: int
    """When the first of them are available again, by the clock of leases."""


class LeasedRange(msgspec.Struct, eq=False, gc=False):
    """Messages of a lane at consecutive offsets that were delivered, with the same history.

    There may be millions of these and of lanes, so the garbage collector does not look at them: whoever drops many
    cuts the ties between them (`LaneTable`).
    """

    start: int
    count: int
    level: int
    attempts: int
    """Deliveries that count, without the one that is going on."""
    first_ms: int
    lane: "Lane"
    error: str = ""
    lease: "Lease | None" = None
    """None once it was given back. An expired lease stays until somebody else has the messages."""
    due_ms: int = 0
    is_expired: bool = False
    """The lease expired, and that was counted as an attempt."""
    is_unwritten: bool = False
    """Delivered for the first time, and in no event yet."""
    next: "LeasedRange | None" = None

    @property
    def end(self) -> int:
        return self.start + self.count

    def split(self, at: int) -> "LeasedRange":
        """Splits off the messages from `at` on; returns them as a range of their own, which follows this one."""
        rest = LeasedRange(
            at, self.end - at, self.level, self.attempts, self.first_ms, self.lane, self.error, self.lease
        )
        rest.due_ms, rest.is_expired, rest.is_unwritten = self.due_ms, self.is_expired, self.is_unwritten
        rest.next = self.next
        self.count, self.next = at - self.start, rest
        if self.lease is not None:
            self.lease.add(rest)
        return rest


class Lane(msgspec.Struct, eq=False, gc=False):
    """The unsettled messages of a key in order: those that were delivered, then those that wait.

    Messages without a key have no order: once delivered, each run of them is a lane of its own, and nothing
    follows in it. Of the delivered ones, the first may be leased, all by one lease; those after them were given back.
    """

    key: bytes | None
    front: int = NOTHING
    """The first message that waits, as offset << LEVEL_BITS | level."""
    more: "array[int] | None" = None
    """The others that wait, from `at` on."""
    at: int = 0
    lead: int = 0
    """How many waiting messages have the level of the first one before another level comes."""
    state: int = READY
    offered: int = 0
    """How many of its messages are counted as available."""
    head: LeasedRange | None = None
    deadline_ms: int = 0
    time_ms: int = 0
    """When a lane that is paused is due, or since when it is due."""

    @property
    def lease(self) -> "Lease | None":
        return None if self.head is None else self.head.lease

    @property
    def front_offset(self) -> int:
        """NOTHING when none waits."""
        return self.front >> LEVEL_BITS

    @property
    def waiting_count(self) -> int:
        if self.more is None:
            return 0 if self.front == NOTHING else 1
        return 1 + len(self.more) - self.at

    def wait(self, place: int) -> None:
        """Adds a message after all others."""
        if self.front == NOTHING:
            self.front, self.lead = place, 1
            return
        if (self.front ^ place) & LEVEL_MASK == 0 and self.lead == self.waiting_count:
            self.lead += 1
        if self.more is None:
            self.more = array("q")
        self.more.append(place)

    def wait_together(self, start: int, count: int, level: int) -> None:
        """Adds messages at consecutive offsets after all others."""
        places = array("q", range(start << LEVEL_BITS | level, (start + count) << LEVEL_BITS, 1 << LEVEL_BITS))
        if self.front == NOTHING:
            self.front, self.lead = places.pop(0), 1
        if places and (self.front ^ places[0]) & LEVEL_MASK == 0 and self.lead == self.waiting_count:
            self.lead += len(places)
        if self.more is None:
            self.more = places or None
        else:
            self.more.extend(places)

    def offset_at(self, number: int) -> int:
        """The offset of the message with this number among those that wait."""
        if not number or self.more is None:
            return self.front_offset
        return self.more[self.at + number - 1] >> LEVEL_BITS

    def take_waiting(self, count: int) -> list[int]:
        """Removes and returns the first ones that wait, at most `lead` of them, in the form of `front`."""
        more, at = self.more, self.at
        if more is None:
            taken, self.front, self.lead = [self.front], NOTHING, 0
            return taken
        taken = [self.front, *more[at : at + count - 1]]
        at += count
        self.lead -= count
        if at > len(more):
            self.front, self.more, self.at = NOTHING, None, 0
            return taken
        self.front, self.at = more[at - 1], at
        if at == len(more):
            self.more, self.at = None, 0
        elif at >= _COMPACT_AT and 2 * at > len(more):
            del more[:at]
            self.at = 0
        if not self.lead:
            self.lead = self._count_lead()
        return taken

    def waiting(self) -> "array[int]":
        """All that wait, in order."""
        first = array("q") if self.front == NOTHING else array("q", (self.front,))
        return first if self.more is None else first + self.more[self.at :]

    def ranges(self) -> list[LeasedRange]:
        found, part = [], self.head
        while part is not None:
            found.append(part)
            part = part.next
        return found

    def unlink(self, part: LeasedRange) -> None:
        """Removes a range. Its `next` is cleared: a long chain of ranges would be freed recursively."""
        if part is self.head:
            self.head = part.next
        else:
            before = self.head
            while before is not None and before.next is not part:
                before = before.next
            assert before is not None, "the range is in its lane"
            before.next = part.next
        part.next = None

    def _count_lead(self) -> int:
        level, count, more = self.front & LEVEL_MASK, 1, self.more
        if more is not None:
            for place in range(self.at, len(more)):
                if more[place] & LEVEL_MASK != level:
                    break
                count += 1
        return count


class Lease(msgspec.Struct, eq=False):
    """What one receive call got."""

    id: int
    consumer: str
    deadline_ms: int = 0
    """Of what is in no event yet."""
    ranges: list[LeasedRange] = []
    """By offset. Some may have left the lease: `LeasedRange.lease` says which one a range is in."""
    open_count: int = 0
    """Messages that are in the lease, also when it has expired."""
    timer_ms: int = 0
    """When its deadlines are looked at next; 0: not at all."""
    taken: list[LeasedRun] = []
    """What is in no event yet."""

    def add(self, part: LeasedRange) -> None:
        insort_right(self.ranges, part, key=_start)

    def find(self, offset: int, after: int) -> int:
        """The index of the first range that ends after an offset. `after` is a guess: the index just before it."""
        ranges = self.ranges
        place = after + 1
        if not (place < len(ranges) and ranges[place].start == offset and ranges[place].lease is self):
            place = bisect_right(ranges, offset, key=_start) - 1
            if place < 0 or ranges[place].end <= offset:
                place += 1
        return place
