"""The messages that a group was given and has not settled: by offset, by time and by availability. Pure.

A run of messages with one history is one entry, so a lease of a thousand messages costs as much as a lease of one.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from quiver.queues.state.port import LEASE_EXPIRED, LEVELS, Dead, Run, Taken
from quiver.structures.offset_ranges import joined
from quiver.structures.ordered_pairs import LOWEST, OrderedPairs

LEASED, EXPIRED, WAITING, RETURNED = 0, 1, 2, 3
"""Leased; the lease has expired and can still be settled; given back and not yet due; given back and due."""

_BLOCK = 512
"""The most entries in one block of `Unsettled`."""
_WAKE_AT_ONCE = 2_000


class InFlightRun(msgspec.Struct, array_like=True, gc=False, eq=False):
    """Messages with one history and one owner.

    It holds no references that could form a cycle, so the garbage collector need not track millions of these.
    """

    start: int
    end: int
    level: int
    attempts: int
    """Deliveries that count, the current one included."""
    first_delivered_ms: int
    state: int
    time_ms: int
    """When the lease ends or ended, or when the run is or was due."""
    lease: int
    """The last lease. It can settle the run until another consumer gets the run, unless the run was given back."""
    consumer: str
    error: str = ""

    @property
    def can_be_settled(self) -> bool:
        return self.state <= EXPIRED

    @property
    def last_error(self) -> str:
        """As the next delivery shows it. In the journal an expired lease looks like one that is still running."""
        return self.error or (LEASE_EXPIRED if self.can_be_settled else "")

    def goes_on_in(self, other: "InFlightRun") -> bool:
        """Whether the other run follows in the same lease, with the same history."""
        return (
            self.end == other.start
            and self.attempts == other.attempts
            and self.first_delivered_ms == other.first_delivered_ms
            and self.level == other.level
            and self.error == other.error
        )

    def taken(self) -> Taken:
        return Taken(self.start, self.end, self.level, self.attempts, self.first_delivered_ms, self.error)

    def dead(self, reason: str, error: str) -> Dead:
        return Dead(self.start, self.end, self.level, self.attempts, self.first_delivered_ms, reason, error)

    def part(self, start: int, end: int) -> "InFlightRun":
        """A copy for some of its messages."""
        return replace(self, start=start, end=end)


def runs_of(entries: Iterable[InFlightRun]) -> list[Run]:
    """Their offsets; adjacent entries become one run."""
    return joined((entry.start, entry.end) for entry in entries)


class Unsettled:
    """Entries in offset order that do not overlap.

    A sorted list in blocks, so that a change moves a few hundred places and not a million. Not a SortedDict, which
    takes two to four times the processor time to find the entries of a range, as every settlement does, and about 50
    bytes per entry instead of 16 (with 1,000 to 1,000,000 entries).
    """

    __slots__ = ("_blocks", "_firsts", "_starts")

    def __init__(self) -> None:
        self._blocks: list[list[InFlightRun]] = []
        self._starts: list[list[int]] = []
        self._firsts: list[int] = []
        """Where the first entry of each block begins."""

    @property
    def lowest(self) -> int | None:
        return self._firsts[0] if self._firsts else None

    def add(self, entry: InFlightRun) -> None:
        start = entry.start
        if not self._firsts:
            self._blocks.append([entry])
            self._starts.append([start])
            self._firsts.append(start)
            return
        at = max(0, bisect_right(self._firsts, start) - 1)
        block, starts = self._blocks[at], self._starts[at]
        place = len(starts) if start > starts[-1] else bisect_left(starts, start)
        block.insert(place, entry)
        starts.insert(place, start)
        if place == 0:
            self._firsts[at] = start
        if len(block) > _BLOCK:
            self._divide(at, place)

    def append(self, entries: list[InFlightRun]) -> None:
        """Entries in order, after all others: they become a block of their own."""
        self._blocks.append(entries)
        self._starts.append([entry.start for entry in entries])
        self._firsts.append(entries[0].start)

    def remove(self, entry: InFlightRun) -> None:
        at, place = self._find(entry.start)
        block, starts = self._blocks[at], self._starts[at]
        del block[place], starts[place]
        if not block:
            del self._blocks[at], self._starts[at], self._firsts[at]
        elif place == 0:
            self._firsts[at] = starts[0]

    def begin_at(self, entry: InFlightRun, start: int) -> None:
        """The entry loses its messages before `start`."""
        at, place = self._find(entry.start)
        entry.start = self._starts[at][place] = start
        if place == 0:
            self._firsts[at] = start

    def at(self, start: int) -> InFlightRun:
        """The entry that begins there."""
        at, place = self._find(start)
        return self._blocks[at][place]

    def overlapping(self, start: int, end: int) -> list[InFlightRun]:
        """Every entry with a message from `start` up to `end`, in order."""
        firsts = self._firsts
        if not firsts:
            return []
        at = max(0, bisect_right(firsts, start) - 1)
        starts = self._starts[at]
        place = bisect_right(starts, start) - 1
        if place < 0 or self._blocks[at][place].end <= start:
            place += 1
        last = bisect_left(starts, end, place)
        found = self._blocks[at][place:last]
        while last == len(starts) and at + 1 < len(firsts) and firsts[at + 1] < end:
            at += 1
            starts = self._starts[at]
            last = bisect_left(starts, end)
            found += self._blocks[at][:last]
        return found

    def following(self, offset: int) -> list[InFlightRun]:
        """The next entries that begin at or after an offset, a few hundred at most; empty at the end."""
        for at in range(max(0, bisect_right(self._firsts, offset) - 1), len(self._firsts)):
            place = bisect_left(self._starts[at], offset)
            if place < len(self._starts[at]):
                return self._blocks[at][place:]
        return []

    def __iter__(self) -> Iterator[InFlightRun]:
        """In order. Nothing may change meanwhile."""
        for block in self._blocks:
            yield from block

    def _find(self, start: int) -> tuple[int, int]:
        at = bisect_right(self._firsts, start) - 1
        return at, bisect_left(self._starts[at], start)

    def _divide(self, at: int, place: int) -> None:
        """A block that grows at its end stays full and starts a new one; any other is halved."""
        block, starts = self._blocks[at], self._starts[at]
        middle = _BLOCK if place == _BLOCK else _BLOCK // 2
        self._blocks.insert(at + 1, block[middle:])
        self._starts.insert(at + 1, starts[middle:])
        self._firsts.insert(at + 1, starts[middle])
        del block[middle:], starts[middle:]


class ReadyQueue:
    """What a group can be given now of one level: retries that are due, then what was read ahead."""

    __slots__ = ("due", "due_count", "ready", "ready_count")

    def __init__(self) -> None:
        self.due = OrderedPairs()
        """Time and start of entries that are due again: the earliest first, or in offset order the lowest."""
        self.due_count = 0
        self.ready: deque[tuple[int, int, int]] = deque()
        """Start, end and level of what was fed and not taken, in offset order."""
        self.ready_count = 0

    def feed(self, start: int, end: int, level: int) -> None:
        ready = self.ready
        if ready and ready[-1][1] == start and ready[-1][2] == level:
            ready[-1] = (ready[-1][0], end, level)
        else:
            ready.append((start, end, level))
        self.ready_count += end - start

    def take_ready(self, count: int) -> tuple[int, int, int]:
        """The first run, cut to `count` messages."""
        start, end, level = self.ready[0]
        stop = min(end, start + count)
        if stop == end:
            self.ready.popleft()
        else:
            self.ready[0] = (stop, end, level)
        self.ready_count -= stop - start
        return start, stop, level

    def drop_ready_below(self, offset: int) -> int:
        """Returns how many messages are gone."""
        before = self.ready_count
        while self.ready and self.ready[0][0] < offset:
            self.take_ready(offset - self.ready[0][0])
        return before - self.ready_count


class InFlight:
    """Entries are added by `put` and taken out by `cut`, whole or in part. Only this class changes those inside."""

    def __init__(self, queue_of_level: tuple[int, ...]) -> None:
        self._queue_of_level = queue_of_level
        """The ready queue of each level."""
        self.ready_queues = [ReadyQueue() for _ in range(max(queue_of_level) + 1)]
        self._is_by_offset = len(self.ready_queues) == 1
        """In offset order, retries come in offset order too: the lowest holds back the committed offset."""
        self.unsettled = Unsettled()
        self.leased = [0] * LEVELS
        self.retrying = 0
        self.held: dict[str, int] = {}
        self._deadlines = OrderedPairs()
        """Time and start of what is leased."""
        self._dues = OrderedPairs()
        """Time and start of what is not due yet."""

    def put(self, entry: InFlightRun) -> None:
        """Its offsets must be free."""
        self.unsettled.add(entry)
        self._note_time(entry, entry.start)
        self._count(entry, entry.end - entry.start)

    def load(self, entries: list[InFlightRun]) -> None:
        """Many at once, at start-up: in order, after all others, each leased or waiting."""
        self.unsettled.append(entries)
        for entry in entries:
            self._count(entry, entry.end - entry.start)
        for times, state in ((self._deadlines, LEASED), (self._dues, WAITING)):
            pairs = [(entry.time_ms, entry.start) for entry in entries if entry.state == state]
            if pairs:
                times.extend(*np.array(pairs, np.int64).T)

    def lengthen(self, entry: InFlightRun, end: int) -> None:
        """The offsets up to `end` must be free."""
        self._count(entry, end - entry.end)
        entry.end = end

    def cut(self, entry: InFlightRun, start: int, end: int) -> InFlightRun:
        """Takes out the messages of an entry from `start` up to `end`, at least one; returns them as an entry."""
        if start <= entry.start and entry.end <= end:
            self._count(entry, entry.start - entry.end)
            self.unsettled.remove(entry)
            self._forget_time(entry)
            return entry
        part = entry.part(max(start, entry.start), min(end, entry.end))
        self._count(entry, part.start - part.end)
        if part.start == entry.start:
            self._forget_time(entry)
            self.unsettled.begin_at(entry, part.end)
            self._note_time(entry, entry.start)
            return part
        old_end, entry.end = entry.end, part.start
        if part.end < old_end:
            self.unsettled.add(entry.part(part.end, old_end))
            self._note_time(entry, part.end)
        return part

    def cut_all(self, start: int, end: int) -> list[InFlightRun]:
        """Takes out everything from `start` up to `end`, in order."""
        return [self.cut(entry, start, end) for entry in self.unsettled.overlapping(start, end)]

    def first_due(self, ready_queue: ReadyQueue) -> InFlightRun | None:
        first = ready_queue.due.first
        return None if first is None else self.unsettled.at(first[1])

    def wake(self, now_ms: int) -> None:
        """Makes retries that are due now available; if there are very many, the earliest of them."""
        for entry in self._until(self._dues, now_ms, _WAKE_AT_ONCE):
            self.change(entry, RETURNED, entry.time_ms)

    def change(self, entry: InFlightRun, state: int, time_ms: int) -> None:
        """Changes the state and time of an entry inside."""
        size = entry.end - entry.start
        self._forget_time(entry)
        self._count(entry, -size)
        entry.state, entry.time_ms = state, time_ms
        self._note_time(entry, entry.start)
        self._count(entry, size)

    def expired(self, now_ms: int, limit: int) -> list[InFlightRun]:
        """Entries whose lease has ended, the earliest first."""
        return self._until(self._deadlines, now_ms, limit)

    def next_time_ms(self) -> int | None:
        firsts = (self._deadlines.first, self._dues.first)
        return min((first[0] for first in firsts if first is not None), default=None)

    def _until(self, times: OrderedPairs, now_ms: int, limit: int) -> list[InFlightRun]:
        first = times.first
        if first is None or first[0] > now_ms:
            return []
        pairs = times.starting_at(LOWEST, LOWEST, limit)
        return [self.unsettled.at(start) for time_ms, start in pairs if time_ms <= now_ms]

    def _note_time(self, entry: InFlightRun, start: int) -> None:
        times, time = self._time_of(entry)
        times.add(time, start)

    def _forget_time(self, entry: InFlightRun) -> None:
        times, time = self._time_of(entry)
        times.remove(time, entry.start)

    def _time_of(self, entry: InFlightRun) -> tuple[OrderedPairs, int]:
        """The list by time that an entry is in, and its time there."""
        if entry.state == LEASED:
            return self._deadlines, entry.time_ms
        if entry.state == WAITING:
            return self._dues, entry.time_ms
        due = self.ready_queues[self._queue_of_level[entry.level]].due
        return due, 0 if self._is_by_offset else entry.time_ms

    def _count(self, entry: InFlightRun, change: int) -> None:
        if entry.state != LEASED:
            self.retrying += change
            if entry.state != WAITING:
                self.ready_queues[self._queue_of_level[entry.level]].due_count += change
            return
        self.leased[entry.level] += change
        held = self.held.get(entry.consumer, 0) + change
        if held:
            self.held[entry.consumer] = held
        else:
            del self.held[entry.consumer]
