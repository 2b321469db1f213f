"""How long the disk takes to sync, and how often it fails."""

from threading import Lock
from time import perf_counter

from quiver.system.files import Files
from quiver.telemetry.histogram import Histogram


class SyncTimes:
    """Of one storage: its threads sync at the same time."""

    def __init__(self) -> None:
        self.seconds = Histogram()
        self.failures = 0
        self._lock = Lock()

    def fdatasync(self, files: Files, fd: int) -> None:
        began, failed = perf_counter(), 1
        try:
            files.fdatasync(fd)
            failed = 0
        finally:
            took = perf_counter() - began
            with self._lock:
                self.seconds.observe(took)
                self.failures += failed
