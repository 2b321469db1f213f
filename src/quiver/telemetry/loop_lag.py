"""How late the event loop runs what is due, which shows that something blocks it."""

import asyncio
from collections import deque

from quiver.telemetry.histogram import Histogram

_INTERVAL_S = 0.1
_KEPT = 100


class LoopLag:
    """Sets a timer ten times per second and measures how late it fires."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque(maxlen=_KEPT)
        self.seconds = Histogram()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def worst_ms(self) -> float:
        """The longest delay of the last ten seconds."""
        return max(self._lags, default=0.0) * 1000

    def start(self) -> None:
        """Starts to measure the running loop; does nothing if it does already."""
        if self._timer is None:
            self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL_S
        self._timer = loop.call_at(due, self._fired, loop, due)

    def _fired(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(0.0, loop.time() - due)
        self._lags.append(late)
        self.seconds.observe(late)
        self._arm(loop)
