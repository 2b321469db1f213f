"""An immutable map from digests of 16 bytes to integers: 24 bytes per entry, for lookups of many at a time."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

DIGEST_BYTES = 16
_ENTRY_BYTES = DIGEST_BYTES + 8
_MANY = 256

Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]


class Digests:
    """Digests as columns of numbers."""

    __slots__ = ("high", "low")

    def __init__(self, high: Words, low: Words) -> None:
        self.high = high
        self.low = low

    @classmethod
    def of(cls, digests: Iterable[bytes]) -> "Digests":
        words = np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)
        return cls(words[:, 0], words[:, 1])

    def __len__(self) -> int:
        return len(self.high)


class WantedDigests(Digests):
    """Digests to look for. Many are sorted, so that the search goes through memory once."""

    __slots__ = ("order",)

    def __init__(self, digests: Digests) -> None:
        self.order: Rows | None = np.argsort(digests.high) if len(digests) >= _MANY else None
        places = slice(None) if self.order is None else self.order
        super().__init__(digests.high[places], digests.low[places])


class DigestMap:
    __slots__ = ("_high", "_low", "_numbers", "_packed")

    def __init__(self, packed: bytes | memoryview) -> None:
        """The map that `pack` wrote. Raises ValueError if it cannot be one."""
        count, rest = divmod(len(packed), _ENTRY_BYTES)
        if rest:
            raise ValueError(f"a map of digests has {_ENTRY_BYTES} bytes per entry, not {len(packed)} in all")
        self._packed = packed
        self._high: Words = np.frombuffer(packed, "<u8", count)
        self._low: Words = np.frombuffer(packed, "<u8", count, 8 * count)
        self._numbers: Numbers = np.frombuffer(packed, "<i8", count, 16 * count)

    @classmethod
    def of(cls, digests: Digests, numbers: Numbers) -> "DigestMap":
        """If a digest occurs several times, the last number counts."""
        high, low = digests.high, digests.low
        order = np.argsort(high, kind="stable")
        if np.any(high[order[1:]] == high[order[:-1]]):
            order = np.lexsort((low, high))
            is_last = np.ones(len(order), np.bool_)
            before, after = order[:-1], order[1:]
            is_last[:-1] = (high[before] != high[after]) | (low[before] != low[after])
            order = order[is_last]
        return cls(b"".join((high[order].tobytes(), low[order].tobytes(), numbers[order].tobytes())))

    def joined(self, later: "DigestMap") -> "DigestMap":
        """Both maps as one; if both have a digest, the number of the later map."""
        both = Digests(np.concatenate((self._high, later._high)), np.concatenate((self._low, later._low)))
        return DigestMap.of(both, np.concatenate((self._numbers, later._numbers)))

    def __len__(self) -> int:
        return len(self._high)

    def highest(self) -> int:
        """The highest number. The map must not be empty."""
        return int(self._numbers.max())

    def pack(self) -> bytes | memoryview:
        """Not copied."""
        return self._packed

    def find(self, wanted: WantedDigests) -> tuple[list[int], list[int]]:
        """The places of the digests that are in the map, and their numbers."""
        if not len(self) or not len(wanted):
            return [], []
        rows, at = self._matches(wanted.high, wanted.low)
        if not len(rows):
            return [], []
        if wanted.order is not None:
            rows = wanted.order[rows]
        return rows.tolist(), self._numbers[at].tolist()

    def _matches(self, high: Words, low: Words) -> tuple[Rows, Rows]:
        """Places among the digests, and here."""
        last = len(self) - 1
        at = np.minimum(np.searchsorted(self._high, high), last)
        rows = np.flatnonzero(self._high[at] == high)
        found_rows, found_at = [], []
        while len(rows):  # a second round is for digests of which the first half is the same, once in 2**64
            places = at[rows]
            is_same = self._low[places] == low[rows]
            found_rows.append(rows[is_same])
            found_at.append(places[is_same])
            rows = rows[~is_same & (places < last)]
            at[rows] += 1
            rows = rows[self._high[at[rows]] == high[rows]]
        if not found_rows:
            return rows, rows
        return np.concatenate(found_rows), np.concatenate(found_at)
