"""What a group can be given now of one level: retries that are due, then what was read ahead. Pure."""

from collections import deque
from heapq import heapify, heappop, heappush

from quiver.delivery.entry import Entry

_SPARE = 64


class Line:
    __slots__ = ("_due", "_due_entries", "due_count", "ready", "ready_count")

    def __init__(self) -> None:
        self.ready: deque[tuple[int, int, int]] = deque()
        """Start, end and level of what was fed and not taken, in offset order."""
        self.ready_count = 0
        self.due_count = 0
        self._due: list[tuple[int, int, int, Entry]] = []
        """The earliest due first. Whatever does not have the ticket of its entry is out of date."""
        self._due_entries = 0

    def add_due(self, entry: Entry, ticket: int) -> None:
        entry.ticket = ticket
        heappush(self._due, (entry.time_ms, entry.start, ticket, entry))
        self._due_entries += 1
        self.due_count += entry.end - entry.start

    def remove_due(self, entry: Entry) -> None:
        entry.ticket = 0
        self._due_entries -= 1
        self.due_count -= entry.end - entry.start
        if len(self._due) > 2 * self._due_entries + _SPARE:
            self._due = [item for item in self._due if item[3].ticket == item[2]]
            heapify(self._due)

    def first_due(self) -> Entry | None:
        due = self._due
        while due:
            _, _, ticket, entry = due[0]
            if entry.ticket == ticket:
                return entry
            heappop(due)
        return None

    def feed(self, start: int, end: int, level: int) -> None:
        ready = self.ready
        if ready and ready[-1][1] == start and ready[-1][2] == level:
            ready[-1] = (ready[-1][0], end, level)
        else:
            ready.append((start, end, level))
        self.ready_count += end - start

    def take_ready(self, count: int) -> tuple[int, int, int]:
        """The first run, or as much of it as asked for."""
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
