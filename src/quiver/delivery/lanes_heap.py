"""Lanes by an offset of theirs, the lowest first. Pure."""

from collections.abc import Callable
from heapq import heappop, heappush

from quiver.delivery.lanes_lane import NOTHING, Lane

_SWEEP_AT = 256
_SWEEP_STEP = 4


class LaneHeap:
    """A lane is pushed whenever its offset becomes another one; `offset_of` says what it is now.

    What is outdated goes when it is met at the top. Much of it may lie below a lane that stays for long, so now and
    then all that is up to date moves into a new heap, a few lanes with each push.
    """

    __slots__ = ("_heap", "_offset_of", "_old", "_sweep_at")

    def __init__(self, offset_of: Callable[[Lane], int]) -> None:
        self._offset_of = offset_of
        """NOTHING for a lane that does not belong here."""
        self._heap: list[tuple[int, Lane]] = []
        self._old: list[tuple[int, Lane]] = []
        self._sweep_at = _SWEEP_AT

    def push(self, offset: int, lane: Lane) -> None:
        heap = self._heap
        heappush(heap, (offset, lane))
        if self._old:
            self._sweep()
        elif len(heap) > self._sweep_at:
            self._heap, self._old = [], heap

    def lowest(self) -> int:
        """NOTHING when there is no lane."""
        heap = self._lower()
        return heap[0][0] if heap else NOTHING

    def first(self) -> Lane | None:
        """The lane with the lowest offset."""
        heap = self._lower()
        return heap[0][1] if heap else None

    def pop(self) -> None:
        """Takes the first lane out."""
        heappop(self._lower())

    def __len__(self) -> int:
        """Outdated ones counted."""
        return len(self._heap) + len(self._old)

    def _lower(self) -> list[tuple[int, Lane]]:
        heap, old = self._heap, self._old
        for each in (heap, old):
            while each and self._offset_of(each[0][1]) != each[0][0]:
                heappop(each)
        if not old or (heap and heap[0] < old[0]):
            return heap
        return old

    def _sweep(self) -> None:
        """A heap without its last items is a heap still."""
        old = self._old
        for _ in range(min(_SWEEP_STEP, len(old))):
            offset, lane = old.pop()
            if self._offset_of(lane) == offset:
                heappush(self._heap, (offset, lane))
        if not old:
            self._sweep_at = max(_SWEEP_AT, 2 * len(self._heap))
