"""Offsets are never used twice: an upper bound is on disk before an offset below it is given out."""

from collections.abc import Callable
from threading import Lock

from quiver.log.recovery.reserved_file import LogState, ReservedFile
from quiver.system.clock import Clock

MIN_STEP = 1 << 20
MAX_STEP = 1 << 25
_BUSY_SECONDS = 5.0


class Reservation:
    """For logs whose appends are acknowledged before they are synced.

    Offsets below `limit` may be given out. From `renew_at` on the limit is moved ahead in time, so that writers
    rarely wait for it. A log that uses it up within seconds reserves more at a time.
    """

    def __init__(self, file: ReservedFile, limit: int, clock: Clock) -> None:
        self.limit = limit
        self.renew_at = limit - MIN_STEP // 2
        self._file = file
        self._clock = clock
        self._step = MIN_STEP
        self._renewed_at = -_BUSY_SECONDS
        self._lock = Lock()

    def renew(self, end_offset: int, state: Callable[[], LogState]) -> None:
        """Moves the limit ahead of an offset, durably. OSError leaves it where it was."""
        with self._lock:
            if end_offset <= self.renew_at:
                return  # another thread has done it
            now = self._clock.monotonic()
            is_busy = now - self._renewed_at < _BUSY_SECONDS
            self._step = min(self._step * 2, MAX_STEP) if is_busy else MIN_STEP
            self._renewed_at = now
            self._save(state()._replace(reserved_offset=end_offset + self._step, is_clean=False), sync=True)

    def save(self, state: LogState, *, sync: bool) -> None:
        """Writes a state with its own limit: on closing, and when the log is cut."""
        with self._lock:
            self._save(state, sync=sync)

    def _save(self, state: LogState, *, sync: bool) -> None:
        self._file.save(state, sync=sync)
        self.limit = state.reserved_offset
        self.renew_at = self.limit - self._step // 2
