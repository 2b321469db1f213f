"""Memory that request bodies may hold at once, over all connections."""

from quiver.model.errors import Overloaded


class BodyBudget:
    def __init__(self, total_bytes: int) -> None:
        self._total_bytes = total_bytes
        self._held_bytes = 0

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def take(self, size: int) -> None:
        """Reserves room before it is used; Overloaded when there is none. A lone request always gets room."""
        if self._held_bytes and self._held_bytes + size > self._total_bytes:
            raise Overloaded(problem=f"{self._held_bytes} bytes of HTTP requests are being read")
        self._held_bytes += size

    def give_back(self, size: int) -> None:
        self._held_bytes -= size
