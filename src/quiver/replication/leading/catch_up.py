"""How fast replicas that do not have everything yet get what they lack."""

import asyncio
from collections.abc import Callable

_SLICE_SECONDS = 0.25
"""How long nobody looks whether a limit has changed."""
_LEAST_CALL_BYTES = 4096


class Throttle:
    """Holds what several streams send together to a limit, which may change while they wait. None: no limit."""

    def __init__(self, limit: Callable[[], int | None]) -> None:
        self.limit = limit
        self._free_at = 0.0

    def call_bytes(self, most: int) -> int:
        """Of one call, so that a slow stream makes small ones."""
        limit = self.limit()
        return most if limit is None else min(most, max(int(limit * _SLICE_SECONDS), _LEAST_CALL_BYTES))

    async def wait(self, sent_bytes: float) -> float:
        """Waits for a moment after something was sent; returns for how much of it one must wait still."""
        limit = self.limit()
        if limit is None:
            return 0.0
        part, now = min(sent_bytes, limit * _SLICE_SECONDS), asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + part / limit
        await asyncio.sleep(self._free_at - now)
        return sent_bytes - part


class CatchUp:
    """Of one unit: a replica that a reassignment adds has the limit of the reassignment, if that has one; all others
    share the limit of the node that leads, over all of its units."""

    def __init__(self, of_node: Throttle, limit: Callable[[], int]) -> None:
        """`limit`: of the unit, 0 for none."""
        self._of_node = of_node
        self._of_unit = Throttle(lambda: limit() or None)

    def throttle(self, *, is_added: bool) -> Throttle:
        return self._of_node if not is_added or self._of_unit.limit() is None else self._of_unit
