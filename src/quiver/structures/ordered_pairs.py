"""Pairs of integers, kept in order in a few packed arrays."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]
Integers = npt.NDArray[np.int64]

LOWEST = -(1 << 63)
_MOST = 2048
_HALF = _MOST // 2
_FEW = 256
_SINGLY = 8
"""Up to this many pairs for the same chunk are added one by one; more are merged into it."""


class _Chunk(NamedTuple):
    firsts: "array[int]"
    seconds: "array[int]"

    def place(self, first: int, second: int) -> int:
        """How many pairs of the chunk are below this one."""
        low = bisect_left(self.firsts, first)
        if low < len(self.firsts) and self.firsts[low] == first:
            return bisect_left(self.seconds, second, low, bisect_right(self.firsts, first, low))
        return low


class OrderedPairs:
    """A sorted set of pairs of 64-bit integers: sixteen bytes each, and a little for every thousand.

    A change costs two binary searches and moving a part of one chunk; a position is found by its number as fast as by
    its pair. Not thread-safe.

    Not a `sortedcontainers.SortedList` of tuples: it takes 130 bytes per pair, a million pairs 130 MB instead of 16,
    and cannot add or return whole arrays, as delays do, although single changes of small sets are faster.
    """

    __slots__ = ("_chunks", "_count", "_lows", "_starts")

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self._lows: list[int] = []
        """The first of the first pair of each chunk."""
        self._count = 0
        self._starts: list[int] | None = None
        """The position of each chunk's first pair; None when it has to be counted again."""

    def __len__(self) -> int:
        return self._count

    def __contains__(self, pair: Pair) -> bool:
        return self.starting_at(*pair, 1) == [pair]

    def __iter__(self) -> Iterator[Pair]:
        """In order. The set must not change meanwhile."""
        for chunk in self._chunks:
            yield from zip(chunk.firsts, chunk.seconds, strict=True)

    @property
    def first(self) -> Pair | None:
        """The lowest pair."""
        if not self._chunks:
            return None
        firsts, seconds = self._chunks[0]
        return firsts[0], seconds[0]

    def add(self, first: int, second: int) -> None:
        """Add a pair that is not in the set."""
        if not self._chunks:
            self._put(0, 0, array("q", [first]), array("q", [second]))
            return
        index = self._index(first, second)
        chunk = self._chunks[index]
        place = chunk.place(first, second)
        chunk.firsts.insert(place, first)
        chunk.seconds.insert(place, second)
        if place == 0:
            self._lows[index] = first
        self._count += 1
        self._starts = None
        if len(chunk.firsts) > _MOST:
            self._count -= len(chunk.firsts)
            self._put(index, index + 1, *chunk)

    def extend(self, firsts: Integers, seconds: Integers) -> None:
        """Add many pairs, in any order, none of which is in the set."""
        order = np.lexsort((seconds, firsts))
        firsts, seconds = firsts[order], seconds[order]
        listed, others = firsts.tolist(), seconds.tolist()
        at, count = 0, len(listed)
        while at < count:
            index = self._index(listed[at], others[at]) if self._chunks else 0
            end = self._run_end(index, listed, others, at)
            if self._chunks and end - at <= _SINGLY:
                for first, second in zip(listed[at:end], others[at:end], strict=True):
                    self.add(first, second)
            else:
                self._merge(index, firsts[at:end], seconds[at:end])
            at = end

    def remove(self, first: int, second: int) -> bool:
        """Remove a pair. False if it was not in the set."""
        if not self._chunks:
            return False
        index = self._index(first, second)
        chunk = self._chunks[index]
        place = chunk.place(first, second)
        if place == len(chunk.firsts) or chunk.firsts[place] != first or chunk.seconds[place] != second:
            return False
        self._delete(index, place)
        return True

    def pop(self, first: int) -> int | None:
        """Remove the lowest pair with this first, and return its second."""
        found = self._lowest_with(first)
        if found is None:
            return None
        index, place = found
        second = self._chunks[index].seconds[place]
        self._delete(index, place)
        return second

    def find(self, first: int) -> int | None:
        """The lowest second of the pairs with this first."""
        found = self._lowest_with(first)
        return None if found is None else self._chunks[found[0]].seconds[found[1]]

    def rank(self, first: int, second: int = LOWEST) -> int:
        """How many pairs are below this one, which need not be in the set."""
        if not self._chunks:
            return 0
        index = self._index(first, second)
        return self._positions()[index] + self._chunks[index].place(first, second)

    def slice(self, start: int, stop: int) -> list[Pair]:
        """The pairs from one position up to another."""
        if start >= stop or start >= self._count:
            return []
        starts = self._positions()
        index = bisect_right(starts, start) - 1
        return self._gather(index, start - starts[index], stop - start)

    def starting_at(self, first: int, second: int, count: int) -> list[Pair]:
        """Up to `count` pairs from this one on, which need not be in the set."""
        if not self._chunks or count <= 0:
            return []
        index = self._index(first, second)
        return self._gather(index, self._chunks[index].place(first, second), count)

    def columns(self, first: int, second: int, count: int) -> tuple[Integers, Integers]:
        """Like `starting_at`, with the firsts and the seconds as separate arrays."""
        if not self._chunks or count <= 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        index = self._index(first, second)
        place = self._chunks[index].place(first, second)
        firsts, seconds = [], []
        while index < len(self._chunks) and count > 0:
            chunk = self._chunks[index]
            firsts.append(np.array(chunk.firsts[place : place + count], np.int64))
            seconds.append(np.array(chunk.seconds[place : place + count], np.int64))
            count -= len(firsts[-1])
            index, place = index + 1, 0
        return np.concatenate(firsts), np.concatenate(seconds)

    def clear(self) -> None:
        self._chunks, self._lows, self._count, self._starts = [], [], 0, None

    def _index(self, first: int, second: int) -> int:
        """The chunk that a pair is in or belongs into."""
        lows = self._lows
        index = bisect_right(lows, first) - 1
        while index >= 0 and lows[index] == first and self._chunks[index].seconds[0] > second:
            index -= 1
        return max(index, 0)

    def _lowest_with(self, first: int) -> tuple[int, int] | None:
        """The chunk and place of the lowest pair with this first."""
        begin = max(bisect_left(self._lows, first) - 1, 0)
        for index in range(begin, min(begin + 2, len(self._chunks))):
            firsts = self._chunks[index].firsts
            place = bisect_left(firsts, first)
            if place < len(firsts):
                return (index, place) if firsts[place] == first else None
        return None

    def _delete(self, index: int, place: int) -> None:
        chunk = self._chunks[index]
        del chunk.firsts[place], chunk.seconds[place]
        self._count -= 1
        self._starts = None
        if len(chunk.firsts) < _FEW:
            self._join(index)
        elif place == 0:
            self._lows[index] = chunk.firsts[0]

    def _positions(self) -> list[int]:
        if self._starts is None:
            self._starts = [0, *accumulate(len(chunk.firsts) for chunk in self._chunks)]
        return self._starts

    def _gather(self, index: int, place: int, count: int) -> list[Pair]:
        found: list[Pair] = []
        while index < len(self._chunks) and len(found) < count:
            chunk, end = self._chunks[index], place + count - len(found)
            found += zip(chunk.firsts[place:end], chunk.seconds[place:end], strict=True)
            index, place = index + 1, 0
        return found

    def _run_end(self, index: int, firsts: list[int], seconds: list[int], at: int) -> int:
        """How many of the sorted pairs belong into one chunk."""
        if index + 1 >= len(self._lows):
            return len(firsts)
        first, second = self._lows[index + 1], self._chunks[index + 1].seconds[0]
        low = bisect_left(firsts, first, at)
        return bisect_left(seconds, second, low, bisect_right(firsts, first, low))

    def _merge(self, index: int, firsts: Integers, seconds: Integers) -> None:
        """Put sorted pairs into the chunk that they belong into."""
        if not self._chunks:
            self._put(0, 0, array("q", firsts.tobytes()), array("q", seconds.tobytes()))
            return
        chunk = self._chunks[index]
        self._count -= len(chunk.firsts)
        all_firsts = np.concatenate((np.frombuffer(chunk.firsts, np.int64), firsts))
        all_seconds = np.concatenate((np.frombuffer(chunk.seconds, np.int64), seconds))
        order = np.lexsort((all_seconds, all_firsts))
        merged = array("q", all_firsts[order].tobytes()), array("q", all_seconds[order].tobytes())
        self._put(index, index + 1, *merged)

    def _put(self, start: int, stop: int, firsts: "array[int]", seconds: "array[int]") -> None:
        """Replace chunks by others with these pairs."""
        step = _MOST if len(firsts) <= _MOST else _HALF
        chunks = [_Chunk(firsts[at : at + step], seconds[at : at + step]) for at in range(0, len(firsts), step)]
        self._chunks[start:stop] = chunks
        self._lows[start:stop] = [chunk.firsts[0] for chunk in chunks]
        self._count += len(firsts)
        self._starts = None

    def _join(self, index: int) -> None:
        """Merges a chunk that has become small into the one before or after it, if that has room."""
        chunk = self._chunks[index]
        for other in (index - 1, index + 1):
            if 0 <= other < len(self._chunks) and len(chunk.firsts) + len(self._chunks[other].firsts) <= _HALF:
                first, last = sorted((index, other))
                left, right = self._chunks[first], self._chunks[last]
                self._count -= len(left.firsts) + len(right.firsts)
                self._put(first, last + 1, left.firsts + right.firsts, left.seconds + right.seconds)
                return
        if chunk.firsts:
            self._lows[index] = chunk.firsts[0]
        else:
            del self._chunks[index], self._lows[index]
