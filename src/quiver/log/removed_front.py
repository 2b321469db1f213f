"""Counts the messages in the removed front of a log: how many a reader has missed, in messages and not in offsets."""

from collections.abc import Iterable

from quiver.structures.interval_set import IntervalSet

_HOLES_REMEMBERED = 4096


class RemovedFront:
    """Offsets without a message: gaps of recovery, markers, messages that compaction removed. They are remembered
    since the log was opened; in what was removed before that, every offset counts as a message."""

    def __init__(self) -> None:
        self._holes = IntervalSet()

    def add(self, holes: Iterable[tuple[int, int]]) -> None:
        for start, end in holes:
            self._holes.add(start, end)
        while self._holes.range_count > _HOLES_REMEMBERED:
            self._holes.remove(*next(iter(self._holes)))

    def message_count(self, start: int, end: int) -> int:
        """How many offsets between two had a message."""
        return sum(stop - begin for begin, stop in self._holes.gaps(start, max(start, end)))
