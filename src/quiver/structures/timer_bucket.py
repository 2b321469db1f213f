"""The entries of a timer wheel for one period."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import compress

import numpy as np

# Cancelled entries are dropped from a bucket when they are more than this and more than half of it.
_STALE_MIN = 64
# numpy sorts 16-bit numbers by radix, which is much faster than sorting longer ones.
_SHORT_MAX = 0xFFFF


class TimerBucket:
    """Entries (id, time) in the order of insertion, or of time once `arrange` was called; 16 bytes each.

    A cancelled entry stays until it is reached or there are too many of them. An id has at most one live entry here
    and that is the last inserted, so the first entries of an id are the cancelled ones, as many as `_stale` says.
    `earliest_ms` is at or before the earliest live time.
    """

    __slots__ = (
        "_ids",
        "_ordered",
        "_stale",
        "_stale_count",
        "_taken",
        "_times",
        "earliest_ms",
        "key",
        "level",
        "tick",
    )

    def __init__(self, key: int, tick: int, level: int, at_ms: int) -> None:
        self.key = key
        self.tick = tick
        self.level = level
        self.earliest_ms = at_ms
        self._ids = array("q")
        self._times = array("q")
        self._taken = 0
        self._stale: dict[int, int] = {}
        self._stale_count = 0
        self._ordered = True

    def __len__(self) -> int:
        return len(self._ids) - self._taken - self._stale_count

    @property
    def size(self) -> int:
        """How many entries there are to move, cancelled ones counted."""
        return len(self._ids) - self._taken

    def __lt__(self, other: "TimerBucket") -> bool:
        """Earlier first; among those that begin together the longer one, which may have entries for the shorter
        one."""
        return self.tick < other.tick or (self.tick == other.tick and self.level > other.level)

    def add(self, id: int, at_ms: int) -> None:
        """Append an entry. An older one of the same id must be cancelled, before or right after."""
        times = self._times
        if self._ordered and times and at_ms < times[-1]:
            self._ordered = False
        self._ids.append(id)
        times.append(at_ms)
        if at_ms < self.earliest_ms:
            self.earliest_ms = at_ms

    def cancel(self, id: int) -> None:
        """Drop the live entry of an id, which must be here."""
        stale = self._stale
        stale[id] = stale.get(id, 0) + 1
        self._stale_count += 1
        if self._stale_count > _STALE_MIN and self._stale_count * 2 > len(self._ids) - self._taken:
            self._purge()

    def take(self, count: int) -> Iterator[tuple[int, int]]:
        """Remove the first `count` entries, cancelled ones counted, and return the live ones in order of insertion.

        Not to be mixed with `take_due`, which arranges by time.
        """
        first, self._taken = self._taken, min(self._taken + count, len(self._ids))
        ids, times = self._ids[first : self._taken], self._times[first : self._taken]
        if self._stale_count:
            live = self._sift(ids)
            return zip(compress(ids, live), compress(times, live), strict=True)
        return zip(ids, times, strict=True)

    def take_due(self, now_ms: int, limit: int) -> list[int]:
        """Remove up to `limit` entries that are due and return their ids in order of time, then of insertion."""
        if now_ms < self.earliest_ms:
            return []
        self._arrange()
        due: list[int] = []
        end = bisect_right(self._times, now_ms, self._taken)
        while len(due) < limit and self._taken < end:
            first, self._taken = self._taken, min(self._taken + limit - len(due), end)
            ids = self._ids[first : self._taken]
            due += compress(ids, self._sift(ids)) if self._stale_count else ids
        if self._taken < len(self._times):
            self.earliest_ms = self._times[self._taken]
        return due

    def _arrange(self) -> None:
        if self._ordered:
            return
        self._purge()
        times = np.frombuffer(self._times, np.int64)
        offsets = times - times.min() if times.size else times
        if not np.any(offsets > _SHORT_MAX):
            offsets = offsets.astype(np.uint16)
        order = np.argsort(offsets, kind="stable")
        self._ids = array("q", np.frombuffer(self._ids, np.int64)[order].tobytes())
        self._times = array("q", times[order].tobytes())
        self._ordered = True

    def _purge(self) -> None:
        """Free what was taken or cancelled."""
        del self._ids[: self._taken], self._times[: self._taken]
        self._taken = 0
        if self._stale_count:
            live = self._sift(self._ids)
            self._times = array("q", compress(self._times, live))
            self._ids = array("q", compress(self._ids, live))

    def _sift(self, ids: "array[int]") -> list[bool]:
        """Whether each of the next ids of this bucket is live; forgets the cancelled ones among them."""
        stale = self._stale
        live = []
        for id in ids:
            count = stale.get(id, 0)
            live.append(not count)
            if count > 1:
                stale[id] = count - 1
            elif count:
                del stale[id]
        self._stale_count -= live.count(False)
        return live
