"""Memory that requests and their answers may hold at once, over all connections."""

from quiver.model.errors import Overloaded


class MemoryBudget:
    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def take(self, size: int) -> None:
        """Reserves room; Overloaded when there is none. When nothing else is held, any size is granted."""
        if self._held_bytes and self._held_bytes + size > self._total_bytes:
            raise Overloaded(problem=f"HTTP requests hold {self._held_bytes} bytes")
        self._held_bytes += size

    def give_back(self, size: int) -> None:
        self._held_bytes -= size
