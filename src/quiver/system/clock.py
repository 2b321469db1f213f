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


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()
