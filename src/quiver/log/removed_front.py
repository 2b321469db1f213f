"""What was in the front of a log that is removed: how many messages a reader has missed, and not how many offsets."""

from collections.abc import Iterable

from quiver.structures.interval_set import IntervalSet

_HOLES_REMEMBERED = 4096


class RemovedFront:
    """Offsets without a message: holes of recovery, ends of transactions, what compaction took out. They are
    remembered since the log was opened; of what was removed before that, every offset counts as a message."""

    def __init__(self) -> None:
        self._holes = IntervalSet()

    def add(self, holes: Iterable[tuple[int, int]]) -> None:
        for start, end in holes:
            self._holes.add(start, end)
        while self._holes.range_count > _HOLES_REMEMBERED:
            self._holes.remove(*next(iter(self._holes)))

    def message_count(self, start: int, end: int) -> int:
        """Of the offsets between two, those that had a message."""
        return sum(stop - begin for begin, stop in self._holes.gaps(start, max(start, end)))
