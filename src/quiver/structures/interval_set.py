"""A set of integers, kept as sorted ranges that neither overlap nor touch."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise

Range = tuple[int, int]


class IntervalSet:
    """Integers of 64 bits. Ranges are half open: `start` is in, `stop` is not; `start >= stop` is an empty range.

    Sixteen bytes per range. A lookup costs a binary search; a change costs that, plus the ranges that it absorbs,
    plus moving the ranges after it in memory as one block. A change that raises leaves the set as it was.

    `sortedcontainers` has no set of ranges.
    """

    __slots__ = ("_count", "_starts", "_stops")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts = array("q")
        self._stops = array("q")
        self._count = 0
        for start, stop in ranges:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> int:
        """Put all of a range in. Returns how many of its integers were not in before."""
        if start >= stop:
            return 0
        starts, stops = self._starts, self._stops
        if not stops or start > stops[-1]:
            first = last = len(stops)
        else:
            first = bisect_left(stops, start)
            last = bisect_right(starts, stop, first)
        before = 0
        if first < last:
            before = self._size(first, last)
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        self._replace(first, last, [start], [stop])
        added = stop - start - before
        self._count += added
        return added

    def remove(self, start: int, stop: int) -> int:
        """Take all of a range out. Returns how many of its integers were in before."""
        if start >= stop:
            return 0
        starts, stops = self._starts, self._stops
        first, last = bisect_right(stops, start), bisect_left(starts, stop)
        if first >= last:
            return 0
        before = self._size(first, last)
        left, right = starts[first], stops[last - 1]
        kept_starts, kept_stops = [], []
        if left < start:
            kept_starts.append(left)
            kept_stops.append(start)
        if stop < right:
            kept_starts.append(stop)
            kept_stops.append(right)
        self._replace(first, last, kept_starts, kept_stops)
        removed = before - max(start - left, 0) - max(right - stop, 0)
        self._count -= removed
        return removed

    def take_first(self, count: int) -> list[Range]:
        """Take the `count` smallest integers out (all, if there are fewer) and return them as ranges in order."""
        starts, stops = self._starts, self._stops
        taken: list[Range] = []
        whole, missing = 0, max(min(count, self._count), 0)
        self._count -= missing
        while missing:
            start, stop = starts[whole], stops[whole]
            if stop - start > missing:
                taken.append((start, start + missing))
                starts[whole] = start + missing
                break
            taken.append((start, stop))
            missing -= stop - start
            whole += 1
        del starts[:whole], stops[:whole]
        return taken

    def clear(self) -> None:
        """Take everything out."""
        del self._starts[:], self._stops[:]
        self._count = 0

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._stops, number)
        return at < len(self._starts) and self._starts[at] <= number

    def overlaps(self, start: int, stop: int) -> bool:
        """Whether any integer of a range is in the set."""
        at = bisect_right(self._stops, start)
        return start < stop and at < len(self._starts) and self._starts[at] < stop

    def covers(self, start: int, stop: int) -> bool:
        """Whether all integers of a range are in the set (of the empty range: yes)."""
        return start >= stop or self.first_gap(start) >= stop

    def first_gap(self, at: int) -> int:
        """The smallest integer that is at least `at` and not in the set."""
        place = bisect_right(self._stops, at)
        return self._stops[place] if place < len(self._starts) and self._starts[place] <= at else at

    def next_member(self, at: int) -> int | None:
        """The smallest integer that is at least `at` and in the set."""
        place = bisect_right(self._stops, at)
        return max(self._starts[place], at) if place < len(self._starts) else None

    def within(self, start: int, stop: int) -> Iterator[Range]:
        """The members from `start` up to `stop`, as ranges in order. The set must not change meanwhile."""
        starts, stops = self._starts, self._stops
        if start >= stop:
            return
        for place in range(bisect_right(stops, start), bisect_left(starts, stop)):
            yield max(starts[place], start), min(stops[place], stop)

    def gaps(self, start: int, stop: int) -> Iterator[Range]:
        """What is not in the set from `start` up to `stop`, as ranges in order. The set must not change meanwhile."""
        for held_start, held_stop in self.within(start, stop):
            if start < held_start:
                yield start, held_start
            start = held_stop
        if start < stop:
            yield start, stop

    def __iter__(self) -> Iterator[Range]:
        """The ranges in order. The set must not change meanwhile."""
        return zip(self._starts, self._stops, strict=True)

    def __len__(self) -> int:
        """How many integers are in the set, not how many ranges."""
        return self._count

    @property
    def range_count(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"IntervalSet({list(self)})"

    def encode(self) -> list[int]:
        """Every bound as its distance from the one before it: start, length, gap, length, gap, length ..."""
        bounds = [bound for held in self for bound in held]
        return bounds[:1] + [after - before for before, after in pairwise(bounds)]

    @classmethod
    def decode(cls, numbers: Sequence[int]) -> "IntervalSet":
        """The set that `encode` wrote. Raises ValueError for anything that it cannot have written."""
        if len(numbers) % 2 or any(distance <= 0 for distance in numbers[1:]):
            raise ValueError("not an encoded interval set: lengths and gaps must be positive and come in pairs")
        decoded = cls()
        try:
            bounds = array("q", accumulate(numbers))
        except OverflowError:
            raise ValueError("not an encoded interval set: a bound has more than 64 bits") from None
        decoded._starts, decoded._stops = bounds[::2], bounds[1::2]
        decoded._count = sum(numbers[1::2])
        return decoded

    def pack(self) -> bytes:
        """Like `encode`, for sets of very many ranges: sixteen bytes each, at the speed of copying."""
        return self._starts.tobytes() + self._stops.tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> "IntervalSet":
        """The set that `pack` wrote, on a machine of the same byte order."""
        unpacked = cls()
        unpacked._starts.frombytes(data[: len(data) // 2])
        unpacked._stops.frombytes(data[len(data) // 2 :])
        unpacked._count = unpacked._size(0, len(unpacked._starts))
        return unpacked

    def _size(self, first: int, last: int) -> int:
        return sum(self._stops[first:last]) - sum(self._starts[first:last])

    def _replace(self, first: int, last: int, starts: list[int], stops: list[int]) -> None:
        new_starts, new_stops = array("q", starts), array("q", stops)
        self._starts[first:last] = new_starts
        self._stops[first:last] = new_stops
