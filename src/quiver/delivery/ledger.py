"""The unsettled messages of a group by offset, by time and by what can be had, with their counts. Pure."""

from collections.abc import Iterator

from quiver.delivery.entry import LEASED, RETURNED, WAITING, Entry
from quiver.delivery.group_state import LEVELS
from quiver.delivery.line import Line
from quiver.delivery.timers import Timers
from quiver.delivery.unsettled import Unsettled

_WAKE_AT_ONCE = 10_000


class Ledger:
    """Entries go in (`put`) and come out (`cut`, whole or in part); one that is in is changed by no one else."""

    def __init__(self, line_of: tuple[int, ...]) -> None:
        self._line_of = line_of
        """The line of each level."""
        self.lines = [Line() for _ in range(max(line_of) + 1)]
        self.unsettled = Unsettled()
        self.leased = [0] * LEVELS
        self.retrying = 0
        self.held: dict[str, int] = {}
        self._deadlines: Timers[Entry] = Timers()
        self._dues: Timers[Entry] = Timers()
        self._last_ticket = 0

    def put(self, entry: Entry) -> None:
        """Its offsets must be free."""
        self.unsettled.add(entry)
        self._count(entry, entry.end - entry.start)
        self._link(entry)

    def cut(self, entry: Entry, start: int, end: int) -> Entry:
        """Takes some messages out of an entry that holds them: what is returned is no longer in."""
        if start <= entry.start and entry.end <= end:
            self._unlink(entry)
            self._count(entry, entry.start - entry.end)
            self.unsettled.remove(entry)
            return entry
        part = entry.part(max(start, entry.start), min(end, entry.end))
        line = self.lines[self._line_of[entry.level]] if entry.ticket else None
        self._count(entry, part.start - part.end)
        if line is not None:
            line.due_count -= part.end - part.start
        if part.start == entry.start:
            self.unsettled.begin_at(entry, part.end)
            return part
        old_end, entry.end = entry.end, part.start
        if part.end < old_end:
            rest = entry.part(part.end, old_end)
            if line is not None:
                line.due_count -= old_end - part.end
            self.unsettled.add(rest)
            self._link(rest)
        return part

    def cut_all(self, start: int, end: int) -> list[Entry]:
        """Takes out everything from `start` up to `end`, in order."""
        return [self.cut(entry, start, end) for entry in self.unsettled.overlapping(start, end)]

    def wake(self, now_ms: int) -> None:
        """Finds retries that are due now; of very many, the earliest."""
        next_ms = self._dues.next_time_ms()
        if next_ms is not None and next_ms <= now_ms:
            for entry in self._dues.take_due(now_ms, _WAKE_AT_ONCE):
                entry.state = RETURNED
                self._link(entry)

    def take_expired(self, now_ms: int, limit: int) -> Iterator[Entry]:
        """Entries whose lease is over, the earliest first; each is taken out."""
        for entry in sorted(self._deadlines.take_due(now_ms, limit), key=_time_and_start):
            yield self.cut(entry, entry.start, entry.end)

    def next_time_ms(self) -> int | None:
        times = [time for time in (self._deadlines.next_time_ms(), self._dues.next_time_ms()) if time is not None]
        return min(times, default=None)

    def _count(self, entry: Entry, change: int) -> None:
        if entry.state != LEASED:
            self.retrying += change
            return
        self.leased[entry.level] += change
        held = self.held.get(entry.consumer, 0) + change
        if held:
            self.held[entry.consumer] = held
        else:
            del self.held[entry.consumer]

    def _link(self, entry: Entry) -> None:
        if entry.state == LEASED:
            self._deadlines.add(entry.time_ms, entry)
        elif entry.state == WAITING:
            self._dues.add(entry.time_ms, entry)
        else:
            self._last_ticket += 1
            self.lines[self._line_of[entry.level]].add_due(entry, self._last_ticket)

    def _unlink(self, entry: Entry) -> None:
        if entry.state == LEASED:
            self._deadlines.discard(entry.time_ms, entry)
        elif entry.state == WAITING:
            self._dues.discard(entry.time_ms, entry)
        elif entry.ticket:
            self.lines[self._line_of[entry.level]].remove_due(entry)


def _time_and_start(entry: Entry) -> tuple[int, int]:
    return entry.time_ms, entry.start
