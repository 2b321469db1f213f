"""Settling messages of lanes: in order, and the first one given back gives back the rest. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quiver.model.errors import LeaseLost, QuiverError, SettleInOrder
from quiver.model.queue import QueueSettings
from quiver.queues.journal.events import ReturnedRun
from quiver.queues.state.keyed.lane import HELD, NOTHING, READY, Lane, Lease, Stretch
from quiver.queues.state.keyed.lane_table import LaneBook
from quiver.queues.state.keyed.runs import merged, merged_dead
from quiver.queues.state.port import Dead, Refused, Run, Settlement
from quiver.structures.interval_set import IntervalSet


class Saved(NamedTuple):
    """A lane's messages as they were before a settlement changed them."""

    book: LaneBook
    lane: Lane
    lease: Lease
    deadline_ms: int
    stretches: list[tuple[int, int, int, int, int, str]]
    """Start, end, level, attempts, first delivery and error of each."""

    def is_above(self, offset: int) -> bool:
        return all(start >= offset for start, *_ in self.stretches)


class Backoff(NamedTuple):
    """When and how messages that are given back come again."""

    now_ms: int
    delay_ms: int | None
    is_counted: bool
    error: str
    settings: QueueSettings
    jitter: float

    def due_ms(self, attempts: int) -> int:
        """After so many attempts that count."""
        if self.delay_ms is not None:
            return self.now_ms + self.delay_ms
        doublings = min(max(attempts - 1, 0), 64)
        pause_ms = min(self.settings.backoff_ms << doublings, self.settings.backoff_max_ms)
        return self.now_ms + round(pause_ms * self.jitter)


class Settling:
    """One call for messages of one lease."""

    def __init__(self, book: LaneBook, lease: int, runs: Sequence[Run]) -> None:
        self._book = book
        self._lease = book.leases.get(lease)
        self._runs = runs
        self._refused: list[Refused] = []
        self._saved: list[Saved] = []
        self._given_back: set[Stretch] = set()
        self.done: list[Run] = []
        self.returned: list[ReturnedRun] = []
        self.followers: list[ReturnedRun] = []
        """Given back because nothing overtakes the others."""
        self.dead: list[Dead] = []
        self.until_ms: int | None = None
        self._due: dict[int, int] = {}
        """By attempts: one number for all that have it."""

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
            self.done += ((each.start, each.end) for each in lane.stretches() if each.lease is self._lease)
            self._book.watch(self._held, deadline_ms)
            self.until_ms = deadline_ms

    def nack(self, backoff: Backoff) -> None:
        for start, end, part in self._parts():
            first = self._claim(part, start, end if part.lane.key is None else start + 1)
            self._give_back([first, *self._behind(first)], backoff)

    # the steps

    @property
    def _held(self) -> Lease:
        assert self._lease is not None, "only a lease that is there has parts"
        return self._lease

    def _parts(self) -> Iterator[tuple[int, int, Stretch]]:
        """What of the runs the lease has, part by part in offset order; the rest is refused."""
        lease, place = self._lease, NOTHING
        known = () if lease is None else lease.stretches
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

    def _is_first(self, start: int, end: int, part: Stretch) -> bool:
        """Whether nothing of the key is open before these messages; refuses them otherwise."""
        head = part.lane.head
        if part.lane.key is None or (part is head and start == part.start):
            return True
        assert head is not None, "the part is in its lane"
        self._refuse(start, end, SettleInOrder(earlier=head.start, offset=start))
        return False

    def _refuse(self, start: int, end: int, error: QuiverError) -> None:
        self._refused.append(Refused(start, end, error))

    def _claim(self, part: Stretch, start: int, end: int) -> Stretch:
        """Just these messages, in a lane that is held: by a lease that has expired, if need be, once more."""
        book, lane = self._book, part.lane
        if lane.key is None and lane.state != HELD:
            book.unlist(lane)
            part = book.alone(part, start, end)
            if part.lane is not lane:
                book.pause(lane, lane.time_ms)
        book.resume(part.lane, self._held)
        return book.alone(part, start, end)

    def _remove(self, part: Stretch, start: int, end: int) -> Stretch:
        part = self._claim(part, start, end)
        lane = part.lane
        self._save(lane, [part])
        self._book.remove(part)
        if lane.lease is None:
            self._book.offer(lane)
        self.done.append((start, end))
        return part

    def _behind(self, first: Stretch) -> list[Stretch]:
        """What the lease has of the lane behind an part."""
        found, part = [], first.next
        while part is not None and part.lease is self._lease:
            found.append(part)
            part = part.next
        return found

    def _give_back(self, stretches: list[Stretch], backoff: Backoff) -> None:
        """The first one as asked for; the others only because nothing overtakes it."""
        first, *others = stretches
        lane = first.lane
        self._save(lane, stretches)
        self._given_back.update(stretches)
        attempts = first.attempts + backoff.is_counted
        if backoff.is_counted and attempts >= backoff.settings.max_attempts:
            self._book.remove(first)
            self._die(first, 1, "max_attempts", backoff.error or first.error)
        else:
            first.attempts, first.error = attempts, backoff.error or first.error
            due_ms = self._due.setdefault(attempts, backoff.due_ms(attempts))
            self._book.give_back(first, due_ms)
            self.until_ms = due_ms if self.until_ms is None else min(self.until_ms, due_ms)
            self.returned.append(ReturnedRun(first.start, first.end, attempts, due_ms))
        for part in others:
            self._book.give_back(part)
            self.followers.append(ReturnedRun(part.start, part.end, part.attempts, 0))
        if lane.lease is None:
            self._book.offer(lane)

    def _die(self, part: Stretch, delivery: int, reason: str, error: str) -> None:
        attempts = part.attempts + delivery
        self.dead.append(Dead(part.start, part.end, part.level, attempts, part.first_ms, reason, error))

    def _save(self, lane: Lane, stretches: list[Stretch]) -> None:
        saved = [(e.start, e.end, e.level, e.attempts, e.first_ms, e.error) for e in stretches]
        self._saved.append(Saved(self._book, lane, self._held, lane.deadline_ms, saved))


def _lost(start: int, end: int) -> LeaseLost:
    return LeaseLost(message=f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}")


def take_back(saved: Saved) -> None:
    """Undoes what a settlement did to a lane.

    Somebody else may have the key by now. When that is the same messages, they keep them. When messages are missing,
    they come first again, and what the other lease has of the key is nobody's until then: as after a restart.
    """
    book, lease = saved.book, saved.lease
    if not saved.stretches:
        if saved.lane.lease is lease:
            saved.lane.deadline_ms = saved.deadline_ms
            book.watch(lease, saved.deadline_ms)
        return
    lane = saved.lane if saved.lane.key is None else book.lanes.get(saved.lane.key, saved.lane)
    other = lane.lease
    if other is not None and other is not lease:
        if lane.key is None or _has_all(lane, saved):
            return
        book.resume(lane, other)
        for part in lane.stretches():
            if part.lease is other:
                book.give_back(part)
    if lane.head is None or lane.lease is lease or lane.head.start >= saved.stretches[0][0]:
        _put_back(book, lane, saved)


def _has_all(lane: Lane, saved: Saved) -> bool:
    known = IntervalSet((part.start, part.end) for part in lane.stretches())
    return all(known.covers(start, end) for start, end, *_ in saved.stretches)


def _put_back(book: LaneBook, lane: Lane, saved: Saved) -> None:
    if lane.key is None:
        book.loose[lane] = None
    else:
        book.lanes[lane.key] = lane
    was_ready = lane.state == READY
    book.resume(lane, saved.lease)
    lane.state = HELD
    if was_ready:
        book.block(lane)
    for part in lane.stretches():
        if part.lease is None and any(start <= part.start < end for start, end, *_ in saved.stretches):
            book.remove(part)
    for start, end, level, attempts, first_ms, error in saved.stretches:
        part = Stretch(start, end - start, level, attempts, first_ms, lane, error)
        book.insert(part)
        book.hold(part, saved.lease)
        saved.lease.add(part)
    lane.deadline_ms = saved.deadline_ms
    book.leases[saved.lease.id] = saved.lease
    book.watch(saved.lease, saved.deadline_ms)
