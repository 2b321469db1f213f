"""What a group can be given now of one level: retries that are due, then what was read ahead. Pure."""

from collections import deque

from quiver.structures.ordered_pairs import OrderedPairs


class ReadyQueue:
    __slots__ = ("due", "due_count", "ready", "ready_count")

    def __init__(self) -> None:
        self.due = OrderedPairs()
        """Time and start of entries that can be had again; the earliest goes first, or in offset order the lowest."""
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
