"""The last row of each key: sorted arrays of key hashes, 24 bytes per key."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from quiver.log.compaction.key_hash import Words

Rows = npt.NDArray[np.int64]
_GATHERED_ROWS = 1 << 20


class HashCollision(Exception):
    """Two keys share the first half of their hash. With another seed they will not."""


class LatestKeys:
    """Rows are added in ascending order; `superseded` is called with each row whose key occurs again later.

    Keys are found by the first half of their hash, and the second half must then agree too.
    """

    def __init__(self, superseded: Callable[[Rows], None]) -> None:
        self._superseded = superseded
        self._first: Words = np.zeros(0, np.uint64)
        self._second: Words = np.zeros(0, np.uint64)
        self._rows: Rows = np.zeros(0, np.int64)
        self._gathered: list[tuple[Words, Words, Rows]] = []
        self._gathered_count = 0

    def has_more_than(self, count: int) -> bool:
        """Whether there are more keys than a number."""
        if len(self._first) + self._gathered_count <= count:
            return False
        self.settle()
        return len(self._first) > count

    def add(self, first: Words, second: Words, rows: Rows) -> None:
        self._gathered.append((first, second, rows))
        self._gathered_count += len(rows)
        if self._gathered_count >= _GATHERED_ROWS:
            self.settle()

    def settle(self) -> None:
        """Merges what was added."""
        if not self._gathered:
            return
        parts = zip(*self._gathered, strict=True)
        first, second, rows = (np.concatenate(part) for part in parts)
        self._gathered, self._gathered_count = [], 0
        order = _order(first)
        self._merge(*self._newest(first[order], second[order], rows[order]))

    def contains(self, first: Words, second: Words) -> npt.NDArray[np.bool_]:
        """Which of these keys are known."""
        order = _order(first)
        found = np.zeros(len(first), np.bool_)
        _, hit = self._find(first[order], second[order])
        found[order] = hit
        return found

    def _newest(self, first: Words, second: Words, rows: Rows) -> tuple[Words, Words, Rows]:
        """Each of the sorted hashes once, with its last row."""
        is_new = np.ones(len(first), np.bool_)
        is_new[1:] = first[1:] != first[:-1]
        if np.any(~is_new[1:] & (second[1:] != second[:-1])):
            raise HashCollision
        is_last = np.ones(len(first), np.bool_)
        is_last[:-1] = is_new[1:]
        self._superseded(rows[~is_last])
        return first[is_last], second[is_last], rows[is_last]

    def _find(self, first: Words, second: Words) -> tuple[Rows, npt.NDArray[np.bool_]]:
        """The positions where sorted hashes are or would be, and which are there."""
        places = np.searchsorted(self._first, first)
        hit = np.zeros(len(first), np.bool_)
        inside = places < len(self._first)
        hit[inside] = self._first[places[inside]] == first[inside]
        if np.any(self._second[places[hit]] != second[hit]):
            raise HashCollision
        return places, hit

    def _merge(self, first: Words, second: Words, rows: Rows) -> None:
        places, hit = self._find(first, second)
        if hit.any():
            self._superseded(self._rows[places[hit]])
            self._rows[places[hit]] = rows[hit]
        new = ~hit
        if new.any():
            self._first = np.insert(self._first, places[new], first[new])
            self._second = np.insert(self._second, places[new], second[new])
            self._rows = np.insert(self._rows, places[new], rows[new])


def _order(hashes: Words) -> Rows:
    """The order that sorts hashes; equal ones stay in their order.

    Sorting numbers that combine a hash's upper bits with its position is faster than an indirect sort. It is not
    enough for hashes that differ only in their lower bits.
    """
    places = np.uint64((1 << max(1, len(hashes).bit_length())) - 1)
    packed = (hashes & ~places) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & places).astype(np.int64)
    sorted_hashes = hashes[order]
    if np.any(sorted_hashes[1:] < sorted_hashes[:-1]):
        return np.argsort(hashes, kind="stable")
    return order
