"""How long a caller waits for the next message."""

from quiver.client.connection.retry_log import RetryLog
from quiver.model.errors import MessageTimeout
from quiver.system.clock import Clock


class WaitLimit:
    """Starts again with `restart`, which is called whenever a message is asked for; without seconds it never ends."""

    __slots__ = ("_clock", "_deadline", "_log", "seconds")

    def __init__(self, clock: Clock, log: RetryLog, seconds: float | None) -> None:
        self._clock = clock
        self._log = log
        self.seconds = seconds
        self._deadline = 0.0
        self.restart()

    def restart(self) -> None:
        if self.seconds is not None:
            self._deadline = self._clock.monotonic() + self.seconds

    @property
    def left(self) -> float | None:
        """Seconds, not below 0; None: forever."""
        return None if self.seconds is None else max(0.0, self._deadline - self._clock.monotonic())

    @property
    def is_over(self) -> bool:
        return self.left == 0.0

    def most(self, seconds: float) -> float:
        """That long, but not beyond the end."""
        left = self.left
        return seconds if left is None else min(seconds, left)

    def error(self) -> MessageTimeout:
        """The error when the time is over; it says so if the broker cannot be reached."""
        problem = self._log.connection_error
        return MessageTimeout(seconds=self.seconds, reason="" if problem is None else f": {problem.message}")
