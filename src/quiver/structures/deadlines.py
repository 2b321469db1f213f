"""When each of many keys has to be checked next, so that nobody has to check all of them. Pure."""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", int, str, tuple[int, int])
_STALE_AT_LEAST = 8


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
            self._drop_stale()

    def forget(self, key: K) -> None:
        """The key has not to be checked any more."""
        if self._noted.pop(key, None) is not None:
            self._drop_stale()

    def __len__(self) -> int:
        """How many entries it holds, with those that do not count any more."""
        return len(self._heap)

    def take(self, now_ms: int) -> K | None:
        """Takes a key whose deadline has passed."""
        while self._heap and self._heap[0][0] < now_ms:
            at_ms, key = heapq.heappop(self._heap)
            if self._noted.get(key) == at_ms:
                del self._noted[key]
                return key
        return None

    def _drop_stale(self) -> None:
        """Entries that a nearer deadline has replaced would stay until their time, which may be years away."""
        if len(self._heap) > 2 * len(self._noted) + _STALE_AT_LEAST:
            self._heap = [(at_ms, key) for key, at_ms in self._noted.items()]
            heapq.heapify(self._heap)

    def nearest_ms(self) -> int | None:
        """When to check next, or earlier."""
        return self._heap[0][0] if self._heap else None
