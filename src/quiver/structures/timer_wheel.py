"""A hierarchical timer wheel: very many pending times, each cheap to set and to cancel."""

import sys
from heapq import heappop, heappush

from quiver.structures.timer_bucket import TimerBucket

TICK_MS = 10
_LEVEL_BITS = 8
_LEVELS = 8  # enough for every time of 64 bits
_KEY_BITS = 3
_TIME_LIMIT_MS = 1 << 62
# A bucket larger than this is spread over the level below in slices of this size, one per tick, before its time
# comes.
_SLICE = 4096


class TimerWheel:
    """Integers of 64 bits as ids, each with the time at which it is due. An id is pending at most once.

    Level 0 has a bucket for each tick of 10 ms, every further level one for 256 buckets of the level below. An entry
    is in the lowest level at which it shares the next larger bucket with the present, and moves down when the time
    of its bucket comes: at most once per level. Buckets are in a heap by their beginning, so time without entries
    costs nothing.

    The order is kept because entries keep their order when they move, and a larger bucket is emptied into smaller
    ones before any of these is emptied. Not thread-safe.
    """

    __slots__ = ("_buckets", "_heap", "_tick", "_where")

    def __init__(self, now_ms: int = 0) -> None:
        if now_ms < 0:
            raise ValueError(f"the present must not be negative: {now_ms}")
        self._tick = now_ms // TICK_MS
        # Ids and keys of buckets: the garbage collector leaves a dict alone that holds nothing but integers.
        self._where: dict[int, int] = {}
        self._buckets: dict[int, TimerBucket] = {}
        self._heap: list[TimerBucket] = []

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, id: int) -> bool:
        return id in self._where

    def schedule(self, id: int, at_ms: int) -> None:
        """Make an id due at a time; a past one means at the next `advance`. A pending id changes its time."""
        if not -_TIME_LIMIT_MS < at_ms < _TIME_LIMIT_MS:
            raise ValueError(f"time {at_ms} is out of range")
        now, tick = self._tick, at_ms // TICK_MS
        if tick < now:
            tick = now
        bucket = self._bucket(tick, ((tick ^ now | 1).bit_length() - 1) // _LEVEL_BITS, at_ms)
        bucket.add(id, at_ms)
        before = self._where.get(id)
        if before is not None:
            self._buckets[before].cancel(id)
        self._where[id] = bucket.key

    def cancel(self, id: int) -> bool:
        """Make sure that an id does not become due. False if it was not pending."""
        key = self._where.pop(id, None)
        if key is None:
            return False
        self._buckets[key].cancel(id)
        return True

    def advance(self, now_ms: int, limit: int | None = None) -> list[int]:
        """Remove what is due and return it in order of time, then of insertion. Nothing comes before its time.

        With a `limit` at most that many come, and the rest at the next call. A clock that went back is harmless.
        """
        target = max(now_ms // TICK_MS, self._tick)
        heap, due, room = self._heap, list[int](), sys.maxsize if limit is None else limit
        while room > 0 and heap and heap[0].tick <= target:
            bucket = heap[0]
            self._tick = max(self._tick, bucket.tick)
            if bucket.level and not self._all_due(bucket, target, room):
                self._spread(bucket, sys.maxsize)
            else:
                taken = bucket.take_due(now_ms, room)
                room -= len(taken)
                due += taken
                if bucket:
                    break
            self._drop_first()
        if not heap or heap[0].tick > target:
            self._tick = target
        self._forget(due)
        large = self._large()
        if large is not None and self._begin_tick(large) <= target:
            self._spread(large, _SLICE)
        return due

    def next_due_ms(self) -> int | None:
        """When to `advance` next; None if nothing is pending.

        Never later than the earliest pending time. Earlier than that only if an earlier entry was cancelled or many
        entries have to move down ahead of their time; and always later than the last `advance` if that had no limit.
        """
        heap = self._heap
        while heap and not heap[0]:
            self._drop_first()
        if not heap:
            return None
        large = self._large()
        if large is None:
            return heap[0].earliest_ms
        return min(heap[0].earliest_ms, max(self._begin_tick(large), self._tick + 1) * TICK_MS)

    def _bucket(self, tick: int, level: int, at_ms: int) -> TimerBucket:
        shift = _LEVEL_BITS * level
        tick = tick >> shift << shift
        key = tick << _KEY_BITS | level
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TimerBucket(key, tick, level, at_ms)
            heappush(self._heap, bucket)
        return bucket

    def _spread(self, bucket: TimerBucket, count: int) -> None:
        """Move the first `count` entries of a bucket to the level below."""
        level, where = bucket.level - 1, self._where
        for id, at_ms in bucket.take(count):
            child = self._bucket(at_ms // TICK_MS, level, at_ms)
            child.add(id, at_ms)
            where[id] = child.key

    def _all_due(self, bucket: TimerBucket, target: int, room: int) -> bool:
        """Whether the first bucket can be emptied directly: its whole time is past and no other bucket is within
        it."""
        end = bucket.tick + (1 << _LEVEL_BITS * bucket.level)
        return end <= target and len(bucket) <= room and all(other.tick >= end for other in self._heap[1:3])

    def _large(self) -> TimerBucket | None:
        """Among the next buckets of all levels, the highest that is too large to move in one go."""
        if len(self._where) > _SLICE:
            for level in range(_LEVELS - 1, 0, -1):
                shift = _LEVEL_BITS * level
                bucket = self._buckets.get((self._tick >> shift) + 1 << shift + _KEY_BITS | level)
                if bucket is not None and bucket.size > _SLICE:
                    return bucket
        return None

    @staticmethod
    def _begin_tick(large: TimerBucket) -> int:
        """When to begin with a large bucket: a tick for each slice, in this level and in those below."""
        return large.tick - large.level * (large.size // _SLICE)

    def _drop_first(self) -> None:
        del self._buckets[heappop(self._heap).key]

    def _forget(self, ids: list[int]) -> None:
        where = self._where
        for id in ids:
            del where[id]
        if ids and not where:
            self._where = {}  # a dict never shrinks
