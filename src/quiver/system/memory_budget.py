"""The memory that requests and responses of clients take: one budget for all connections of all ports.

Bytes count when they arrive, not when they are announced. Clients that use little have a share of their own, which no
large request can take. One large request at a time may exceed the budget until it is complete, so that incomplete
requests cannot block each other; the next one may when the excess of those before it has shrunk to one request. So
the memory stays below the budget plus two requests.
"""

import sys
from collections.abc import Callable

from quiver.model.errors import Overloaded
from quiver.model.limits import KIB, MIB

DEFAULT_BYTES = 256 * MIB
SMALL_BYTES = 64 * KIB
"""A client that uses no more than this uses little."""
_SMALL_SHARE = 8
"""The part of the budget that is kept for such clients: an eighth."""


class MemoryBudget:
    """Belongs to one event loop. `request_bytes` is the size of the largest request."""

    def __init__(self, total_bytes: int, *, request_bytes: int = 32 * MIB) -> None:
        self.total_bytes = total_bytes
        self.held_bytes = 0
        self._request_bytes = request_bytes
        self._small_share = total_bytes // _SMALL_SHARE
        self._small_bytes = 0
        """What clients use that use little."""
        self._beyond: Holding | None = None
        """The client whose request may exceed the budget."""
        self._waiting: dict[Holding, tuple[int, Callable[[], None]]] = {}
        """How much they need, in the order in which they asked."""

    def open(self) -> "Holding":
        """For one connection, or one request. It must be closed."""
        return Holding(self)

    @property
    def _large_bytes(self) -> int:
        return self.held_bytes - self._small_bytes

    def _room(self, holding: "Holding") -> int:
        """Within the budget."""
        if holding.is_large:
            return max(0, self.total_bytes - self._small_share - self._large_bytes)
        free = max(self.total_bytes - self.held_bytes, self._small_share - self._small_bytes)
        as_small = min(SMALL_BYTES - holding.held_bytes, free)
        as_large = self.total_bytes - self._small_share - self._large_bytes - holding.held_bytes
        return max(0, as_small, as_large)

    def _may_go_beyond(self, holding: "Holding") -> bool:
        if self._beyond is None:
            return self._large_bytes <= self.total_bytes - self._small_share + self._request_bytes
        return self._beyond is holding

    def _wake(self) -> None:
        while self._waiting:
            first, (size, wake) = next(iter(self._waiting.items()))
            if self._room(first) < size:
                if self._beyond is not None or not self._may_go_beyond(first):
                    return
                self._beyond = first
            del self._waiting[first]
            wake()


class Holding:
    """The memory of one client."""

    __slots__ = ("_budget", "held_bytes", "is_large")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self.held_bytes = 0
        self.is_large = False

    def room(self) -> int:
        """How many more bytes may be used."""
        budget = self._budget
        return sys.maxsize if budget._may_go_beyond(self) else budget._room(self)

    def admits(self, size: int = 1) -> bool:
        return size <= self.room()

    def check(self, size: int = 1) -> None:
        """Raises Overloaded if this many more bytes may not be used."""
        if not self.admits(size):
            raise Overloaded(problem=f"requests and responses take {self._budget.held_bytes} bytes")

    def take(self, size: int) -> None:
        """Takes more bytes for a request. Raises Overloaded if that is too much."""
        budget, held_bytes = self._budget, self.held_bytes + size
        if held_bytes <= SMALL_BYTES and budget.held_bytes + size <= budget.total_bytes:
            # Most requests: one that holds little has room whenever the budget as a whole has.
            self.held_bytes = held_bytes
            budget.held_bytes += size
            budget._small_bytes += size
            return
        self.check(size)
        self.arrived(self.held_bytes + size)

    def arrived(self, size: int) -> None:
        """Sets the size after more of a request has arrived: there was `room`."""
        budget = self._budget
        if budget._beyond is None and size - self.held_bytes > budget._room(self):
            budget._beyond = self
        self.resize(size)

    def resize(self, size: int) -> None:
        """Sets the size for any other reason."""
        budget, before = self._budget, self.held_bytes
        if size == before:
            return
        budget.held_bytes += size - before
        if not self.is_large:
            budget._small_bytes -= before
        self.held_bytes, self.is_large = size, size > SMALL_BYTES
        if not self.is_large:
            budget._small_bytes += size
        if size < before:
            budget._wake()

    def end_request(self) -> None:
        """A request is complete: its bytes will be freed, and another request may exceed the budget."""
        if self._budget._beyond is self:
            self._budget._beyond = None
            self._budget._wake()

    def when_admitted(self, wake: Callable[[], None], size: int = 1) -> None:
        """Calls `wake` once, when this many more bytes may be used; first come, first served."""
        self._budget._waiting[self] = size, wake

    def stop_waiting(self) -> None:
        """Withdraws what it waits for."""
        self._budget._waiting.pop(self, None)
        self.end_request()

    def close(self) -> None:
        """Gives everything back."""
        budget = self._budget
        if self.is_large or budget._waiting or budget._beyond is self:
            self.resize(0)
            self.stop_waiting()
            return
        budget.held_bytes -= self.held_bytes
        budget._small_bytes -= self.held_bytes
        self.held_bytes = 0
