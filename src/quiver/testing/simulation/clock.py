"""Clocks that read the virtual time."""

from quiver.testing.simulation.world import World

EPOCH_MS = 1_800_000_000_000
"""Wall clocks begin here."""


class SimulatedClock:
    """The clock of one machine. `step` moves its wall clock; the monotonic one goes on."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self._offset_ms + int(self._world.now * 1000)

    def monotonic(self) -> float:
        return self._world.now

    def step(self, offset_ms: int) -> None:
        """It is so much ahead of the true time from now on."""
        self._offset_ms = offset_ms
