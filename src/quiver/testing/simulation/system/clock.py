"""Clocks that read the virtual time."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from quiver.testing.simulation.world import World

EPOCH_MS = 1_800_000_000_000
"""Wall clocks begin here."""


class ClockRecord(Protocol):
    """What the clock of a broker showed, for checks."""

    def ahead_ms(self, since: float, until: float) -> list[int]:
        """How much it was ahead of the true time in a span, one after the other."""
        ...

    def read_at(self, time_ms: int) -> list[float]:
        """The true times, in seconds, at which it showed this time: none, or several if it was stepped back."""
        ...


class ClocksOfSeveral:
    """Of several brokers, any of which may have done what is checked: a `ClockRecord`."""

    def __init__(self, clocks: "Sequence[SimulatedClock]") -> None:
        self._clocks = clocks

    def ahead_ms(self, since: float, until: float) -> list[int]:
        return [ahead for clock in self._clocks for ahead in clock.ahead_ms(since, until)]

    def read_at(self, time_ms: int) -> list[float]:
        return [at for clock in self._clocks for at in clock.read_at(time_ms)]


class SimulatedClock:
    """The clock of one machine. `step` moves its wall clock; the monotonic one continues."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._offset_ms = 0
        self._steps: list[tuple[float, int]] = [(0.0, 0)]
        """When it was stepped, and how far it has been ahead since."""

    def now_ms(self) -> int:
        return EPOCH_MS + self._offset_ms + int(self._world.now * 1000)

    def monotonic(self) -> float:
        return self._world.now

    def step(self, offset_ms: int) -> None:
        """From now on it is this much ahead of the true time."""
        self._offset_ms = offset_ms
        self._steps.append((self._world.now, offset_ms))

    def ahead_ms(self, since: float, until: float) -> list[int]:
        before = [offset for at, offset in self._steps if at <= since]
        return [before[-1], *(offset for at, offset in self._steps if since < at <= until)]

    def read_at(self, time_ms: int) -> list[float]:
        spans = pairwise([*self._steps, (math.inf, 0)])
        shown = [((time_ms - EPOCH_MS - offset) / 1000, at, until) for (at, offset), (until, _) in spans]
        return [seconds for seconds, at, until in shown if at - 0.001 <= seconds < until]
