"""Whether a call that blocks may run on the event loop itself."""

import time

QUICK_SECONDS = 0.0005
_FORGOTTEN_PER_CALL = 0.05
"""A call that took ten milliseconds counts as slow for the next sixty."""
_BUSY_SHARE = 0.5
_LOOK_SECONDS = 0.01


class QuickCalls:
    """Decides for calls of one kind, from how long the last ones took and how busy the loop is.

    Waking a thread and being woken by it takes longer than a quick call does. A call that is slow after all holds up
    the loop once; after it, calls go to the thread until they have been quick for a while.
    """

    __slots__ = ("_is_idle", "_looked_at", "_seconds", "_worked")

    def __init__(self) -> None:
        self._seconds = 20 * QUICK_SECONDS
        self._is_idle = False
        self._looked_at = self._worked = 0.0

    def took(self, seconds: float) -> None:
        self._seconds = max(seconds, self._seconds * (1.0 - _FORGOTTEN_PER_CALL))

    def may_run_on_loop(self) -> bool:
        """Asked on the loop, before each call."""
        now = time.perf_counter()
        if now - self._looked_at >= _LOOK_SECONDS:
            worked = time.thread_time()
            self._is_idle = worked - self._worked < (now - self._looked_at) * _BUSY_SHARE
            self._looked_at, self._worked = now, worked
        return self._is_idle and self._seconds <= QUICK_SECONDS
