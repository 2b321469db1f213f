"""Things that happen at a time, each to be called off at no cost. Pure."""

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)

_SPARE = 64


class Timers(Generic[Item]):
    """One place a millisecond. Items are no sets."""

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[int, Item | set[Item]] = {}
        """A lone item has its place for itself: most do."""
        self._heap: list[int] = []
        """Every time in use, and some that were."""

    def add(self, time_ms: int, item: Item) -> None:
        held = self._places.get(time_ms)
        if held is None:
            self._places[time_ms] = item
            heappush(self._heap, time_ms)
            if len(self._heap) > 2 * len(self._places) + _SPARE:
                self._heap = list(self._places)
                heapify(self._heap)
        elif isinstance(held, set):
            held.add(item)
        else:
            self._places[time_ms] = {held, item}

    def discard(self, time_ms: int, item: Item) -> None:
        """Nothing happens when it is not there."""
        held = self._places.get(time_ms)
        if isinstance(held, set):
            held.discard(item)
            if not held:
                del self._places[time_ms]
        elif held is item:
            del self._places[time_ms]

    def next_time_ms(self) -> int | None:
        heap = self._heap
        while heap and heap[0] not in self._places:
            heappop(heap)
        return heap[0] if heap else None

    def take_due(self, now_ms: int, limit: int) -> list[Item]:
        """Takes out what is due, the earliest first, and stops with the millisecond that reaches the limit."""
        taken: list[Item] = []
        while len(taken) < limit and (time_ms := self.next_time_ms()) is not None and time_ms <= now_ms:
            held = self._places.pop(time_ms)
            if isinstance(held, set):
                taken += held
            else:
                taken.append(held)
        return taken
