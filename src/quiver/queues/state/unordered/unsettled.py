"""Entries in offset order, none over another. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from quiver.queues.state.unordered.in_flight_run import InFlightRun

_BLOCK = 512


class Unsettled:
    """A sorted list in blocks, so that a change moves a few hundred places and not a million."""

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
        """Entries in order, behind all that are in: a block of their own."""
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
        """The entry loses what is before `start`."""
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
        """The next entries that begin at or behind an offset, a few hundred at the most; none: there are no more."""
        for at in range(max(0, bisect_right(self._firsts, offset) - 1), len(self._firsts)):
            place = bisect_left(self._starts[at], offset)
            if place < len(self._starts[at]):
                return self._blocks[at][place:]
        return []

    def __iter__(self) -> Iterator[InFlightRun]:
        """In order. There must be no change meanwhile."""
        for block in self._blocks:
            yield from block

    def _find(self, start: int) -> tuple[int, int]:
        at = bisect_right(self._firsts, start) - 1
        return at, bisect_left(self._starts[at], start)

    def _divide(self, at: int, place: int) -> None:
        """A block that grows at its end leaves a full one behind, any other is halved."""
        block, starts = self._blocks[at], self._starts[at]
        middle = _BLOCK if place == _BLOCK else _BLOCK // 2
        self._blocks.insert(at + 1, block[middle:])
        self._starts.insert(at + 1, starts[middle:])
        self._firsts.insert(at + 1, starts[middle])
        del block[middle:], starts[middle:]
