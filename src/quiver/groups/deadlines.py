"""When groups have to be looked at next, so that nobody walks over all of them. Pure."""

import heapq
from typing import Generic, TypeVar

K = TypeVar("K", str, tuple[int, int])


class Deadlines(Generic[K]):
    """The true deadline of a group may move back without notice, as heartbeats make it do: whoever looks asks the
    group, and notes what it says. One that comes nearer must be noted at once."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, K]] = []
        self._noted: dict[K, int] = {}

    def note(self, group: K, at_ms: int | None) -> None:
        """The group has to be looked at then, if not before."""
        if at_ms is not None and (group not in self._noted or at_ms < self._noted[group]):
            self._noted[group] = at_ms
            heapq.heappush(self._heap, (at_ms, group))

    def take(self, now_ms: int) -> K | None:
        """A group whose deadline has passed; it is not noted any more."""
        while self._heap and self._heap[0][0] < now_ms:
            at_ms, group = heapq.heappop(self._heap)
            if self._noted.get(group) == at_ms:
                del self._noted[group]
                return group
        return None

    def nearest_ms(self) -> int | None:
        """When somebody has to look next, or earlier."""
        return self._heap[0][0] if self._heap else None
