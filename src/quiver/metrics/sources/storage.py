"""Numbers of the storage, of the start, and of schedules."""

from quiver.metrics.collector import Collection
from quiver.metrics.series import (
    BUFFER_BYTES,
    BUFFER_MESSAGES,
    BUFFERED,
    RECOVERY,
    SCHEDULE_RUNS,
    SYNC_FAILURES,
    SYNC_SECONDS,
)
from quiver.schedules.service import Schedules
from quiver.storage.port import Storage


class StorageNumbers:
    def __init__(self, storage: Storage, schedules: Schedules) -> None:
        self._storage = storage
        self._schedules = schedules
        self.recovery_seconds = 0.0
        """Set when the broker has started."""

    async def collect(self, collection: Collection) -> None:
        values, times = collection.values, self._storage.sync_times
        values.set(RECOVERY, self.recovery_seconds)
        for result, count in self._schedules.runs.items():
            values.set(SCHEDULE_RUNS, count, result)
        if times is not None:
            values.observe(SYNC_SECONDS, times.seconds)
            values.set(SYNC_FAILURES, times.failures)
        if (buffer := self._storage.buffer_numbers) is not None:
            values.set(BUFFER_MESSAGES, buffer.message_count)
            values.set(BUFFER_BYTES, buffer.size_bytes)
            values.set(BUFFERED, buffer.buffered_total)
