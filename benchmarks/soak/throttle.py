"""Work that is to take no more than a share of the time, so that a long run leaves the machine to others."""

import time


class Throttle:
    def __init__(self, share: float) -> None:
        self._share = share
        self._began = time.monotonic()

    def pause(self) -> None:
        """Called after each round of work: waits as long as the share asks for."""
        if self._share < 1:
            worked = time.monotonic() - self._began
            time.sleep(worked * (1 - self._share) / self._share)
        self._began = time.monotonic()
