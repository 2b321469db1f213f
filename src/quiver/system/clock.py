"""Time. Everything that needs it takes a Clock."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock, epoch milliseconds; may jump, also backwards."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards."""
        ...


class SteadyClock:
    """The steady clock: wall-clock time at the start, from then on advanced by the monotonic clock. For durations.

    It does not follow steps of the wall clock, so times that are shown or compared with others need the wall clock.
    """

    def __init__(self, wall: Clock, *, at_least_ms: int = 0) -> None:
        """It begins at this time or later."""
        self._wall = wall
        self._start_ms = max(wall.now_ms(), at_least_ms) - round(wall.monotonic() * 1000)

    def now_ms(self) -> int:
        return self._start_ms + round(self._wall.monotonic() * 1000)

    def earlier_ms(self) -> int:
        """The earlier of this and the wall clock: what is forgotten by age is old by both."""
        return min(self.now_ms(), self._wall.now_ms())

    def monotonic(self) -> float:
        return self._wall.monotonic()


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    """As it is: a consumer asks for the time with each message."""
