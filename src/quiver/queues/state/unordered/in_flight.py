"""The unsettled messages of a group by offset, by time and by what can be had, with their counts. Pure."""

import numpy as np

from quiver.queues.state.port import LEVELS
from quiver.queues.state.unordered.in_flight_run import LEASED, RETURNED, WAITING, InFlightRun
from quiver.queues.state.unordered.ready_queue import ReadyQueue
from quiver.queues.state.unordered.unsettled import Unsettled
from quiver.structures.ordered_pairs import LOWEST, OrderedPairs, Pair

_WAKE_AT_ONCE = 2_000


class InFlight:
    """Entries go in (`put`) and come out (`cut`, whole or in part); what is in is changed here alone."""

    def __init__(self, queue_of_level: tuple[int, ...]) -> None:
        self._queue_of_level = queue_of_level
        """The line of each level."""
        self.ready_queues = [ReadyQueue() for _ in range(max(queue_of_level) + 1)]
        self._is_by_offset = len(self.ready_queues) == 1
        """In offset order, what comes again comes in offset order: the lowest holds up the committed offset."""
        self.unsettled = Unsettled()
        self.leased = [0] * LEVELS
        self.retrying = 0
        self.held: dict[str, int] = {}
        self._deadlines = OrderedPairs()
        """Time and start of what is leased."""
        self._dues = OrderedPairs()
        """Time and start of what waits to be due."""

    def put(self, entry: InFlightRun) -> None:
        """Its offsets must be free."""
        self.unsettled.add(entry)
        self._note_time(entry, entry.start)
        self._count(entry, entry.end - entry.start)

    def load(self, entries: list[InFlightRun]) -> None:
        """Many at once, at start-up: in order, behind all that are in, each leased or waiting to be due."""
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
        """Takes out what an entry has from `start` up to `end`, which is something; returns it."""
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
        first = _first(ready_queue.due)
        return None if first is None else self.unsettled.at(first[1])

    def wake(self, now_ms: int) -> None:
        """Finds retries that are due now; of very many, the earliest."""
        for entry in self._until(self._dues, now_ms, _WAKE_AT_ONCE):
            self.change(entry, RETURNED, entry.time_ms)

    def change(self, entry: InFlightRun, state: int, time_ms: int) -> None:
        """An entry that stays in."""
        size = entry.end - entry.start
        self._forget_time(entry)
        self._count(entry, -size)
        entry.state, entry.time_ms = state, time_ms
        self._note_time(entry, entry.start)
        self._count(entry, size)

    def expired(self, now_ms: int, limit: int) -> list[InFlightRun]:
        """What has a lease that is over, the earliest first."""
        return self._until(self._deadlines, now_ms, limit)

    def next_time_ms(self) -> int | None:
        firsts = (_first(self._deadlines), _first(self._dues))
        return min((first[0] for first in firsts if first is not None), default=None)

    def _until(self, times: OrderedPairs, now_ms: int, limit: int) -> list[InFlightRun]:
        first = _first(times)
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
        """Where an entry stands by time, and at which."""
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


def _first(times: OrderedPairs) -> Pair | None:
    found = times.starting_at(LOWEST, LOWEST, 1) if times else None
    return found[0] if found else None
