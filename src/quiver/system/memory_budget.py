"""Memory that clients make the broker hold: one budget over all connections of all ports.

What has arrived counts, never what is announced. Whoever holds much gets no more once the budget is full but for a
share that is kept for those who hold little. One at a time may go beyond: requests that are half there cannot keep
each other from ending, whatever fills the budget. So it never holds more than its size and one request.
"""

import sys
from collections.abc import Callable

from quiver.model.errors import Overloaded
from quiver.model.limits import KIB, MIB

DEFAULT_BYTES = 256 * MIB
SMALL_BYTES = 64 * KIB
"""Who holds no more than this holds little."""
_SMALL_SHARE = 8
"""The part of the budget that is kept for those: an eighth."""


class MemoryBudget:
    """Belongs to one event loop."""

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        self._large_bytes = total_bytes - total_bytes // _SMALL_SHARE
        self._beyond: Holding | None = None
        """Who may go beyond the budget, until it gives something back. What it holds takes no room from others."""
        self._waiting: dict[Holding, Callable[[], None]] = {}
        """In the order in which they asked."""

    def open(self) -> "Holding":
        """For one connection, or one request. It must be closed."""
        return Holding(self)

    def _has_room(self, holding: "Holding", size: int) -> bool:
        limit = self.total_bytes if holding.held_bytes + size <= SMALL_BYTES else self._large_bytes
        return self._counted_bytes + size <= limit

    @property
    def _counted_bytes(self) -> int:
        return self.held_bytes if self._beyond is None else self.held_bytes - self._beyond.held_bytes

    def _admits(self, holding: "Holding", size: int) -> bool:
        return self._beyond is None or self._beyond is holding or self._has_room(holding, size)

    def _room(self, holding: "Holding") -> int:
        if self._beyond is None or self._beyond is holding:
            return sys.maxsize
        large = self._large_bytes - self._counted_bytes
        small = min(SMALL_BYTES - holding.held_bytes, self.total_bytes - self._counted_bytes)
        return max(large, small, 0)

    def _taken(self, holding: "Holding") -> None:
        if self._beyond is None and not self._has_room(holding, 0):
            self._beyond = holding

    def _given_back(self, holding: "Holding") -> None:
        if holding is self._beyond:
            self._beyond = None
        while self._waiting:
            first = next(iter(self._waiting))
            if not self._has_room(first, 1):
                if self._beyond is not None:
                    return
                self._beyond = first
            wake = self._waiting.pop(first)
            wake()


class Holding:
    """What one client holds."""

    __slots__ = ("_budget", "held_bytes")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def admits(self, size: int = 1) -> bool:
        """Whether so much more may be held. Nothing is taken yet."""
        return self._budget._admits(self, size)

    def room(self) -> int:
        """How many bytes more may be held."""
        return self._budget._room(self)

    def check(self, size: int = 1) -> None:
        """Overloaded when so much more may not be held."""
        if not self.admits(size):
            raise Overloaded(problem=f"requests and answers hold {self._budget.held_bytes} bytes")

    def take(self, size: int) -> None:
        """Holds more; Overloaded when that is too much."""
        self.check(size)
        self.resize(self.held_bytes + size)

    def resize(self, size: int) -> None:
        """It is so much now: what has arrived is there, whether or not there was room for it."""
        more = size - self.held_bytes
        if more:
            self.held_bytes = size
            self._budget.held_bytes += more
            if more > 0:
                self._budget._taken(self)
            else:
                self._budget._given_back(self)

    def when_admitted(self, wake: Callable[[], None]) -> None:
        """Calls `wake` once, when more may be held; who asked first gets it first."""
        self._budget._waiting[self] = wake

    def stop_waiting(self) -> None:
        """It needs no more than it holds: others go on."""
        self._budget._waiting.pop(self, None)
        self._budget._given_back(self)

    def close(self) -> None:
        """Gives everything back."""
        self.resize(0)
        self.stop_waiting()
