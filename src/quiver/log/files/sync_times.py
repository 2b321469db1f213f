"""How long the disk takes to sync, and how often it fails."""

from bisect import bisect_left
from threading import Lock
from time import perf_counter

from quiver.system.files import Files
from quiver.telemetry.histogram import LATENCY_SECONDS, Histogram


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
            took, seconds = perf_counter() - began, self.seconds
            with self._lock:
                seconds.counts[bisect_left(LATENCY_SECONDS, took)] += 1
                seconds.sum += took
                self.failures += failed
