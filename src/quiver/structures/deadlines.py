"""When each of many things has to be looked at next, so that nobody walks over all of them. Pure."""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", int, str, tuple[int, int])


class Deadlines(Generic[K]):
    """The true deadline of a key may move into the future without notice, as heartbeats make it do: whoever takes a
    key looks up its deadline and notes it again. A deadline that comes nearer must be noted at once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        self._noted: dict[K, int] = {}

    def note(self, key: K, at_ms: int | None) -> None:
        """The key has to be looked at then, if not before."""
        if at_ms is not None and (key not in self._noted or at_ms < self._noted[key]):
            self._noted[key] = at_ms
            heapq.heappush(self._heap, (at_ms, key))

    def take(self, now_ms: int) -> K | None:
        """A key whose deadline has passed; it is not noted any more."""
        while self._heap and self._heap[0][0] < now_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._noted.get(key) == at_ms:
                del self._noted[key]
                return key
        return None

    def nearest_ms(self) -> int | None:
        """When somebody has to look next, or earlier."""
        return self._heap[0][0] if self._heap else None
