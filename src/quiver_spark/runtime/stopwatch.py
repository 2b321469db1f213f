"""How long something took."""

from quiver.system.clock import Clock, SystemClock


class Stopwatch:
    """Seconds since it was created."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._begin = self._clock.monotonic()

    def seconds(self) -> float:
        return self._clock.monotonic() - self._begin
