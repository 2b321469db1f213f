"""When each of many keys has to be checked next, so that nobody has to check all of them. Pure."""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", int, str, tuple[int, int])


class Deadlines(Generic[K]):
    """The true deadline of a key may move into the future without notice, as with heartbeats: the caller that takes a
    key looks up its deadline and adds it again. A deadline that becomes earlier must be added immediately."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        self._noted: dict[K, int] = {}

    def note(self, key: K, at_ms: int | None) -> None:
        """The key has to be checked at this time, or earlier."""
        if at_ms is not None and (key not in self._noted or at_ms < self._noted[key]):
            self._noted[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def take(self, now_ms: int) -> K | None:
        """Takes a key whose deadline has passed."""
        while self._heap and self._heap[0][0] < now_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._noted.get(key) == at_ms:
                del self._noted[key]
                return key
        return None

    def nearest_ms(self) -> int | None:
        """When to check next, or earlier."""
        return self._heap[0][0] if self._heap else None
