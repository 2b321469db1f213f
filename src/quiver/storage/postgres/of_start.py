"""The storage of one worker among several of a process: logs belong to its start."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quiver.log.files.sync_times import SyncTimes
from quiver.model.names import StartEpoch
from quiver.storage.port import BufferNumbers, LogOptions
from quiver.storage.postgres.appending.recovery import TAKEN_OVER
from quiver.storage.postgres.log import PostgresLog

if TYPE_CHECKING:
    from quiver.storage.postgres.storage import PostgresStorage


class StorageOfStart:
    """`start_epoch` was taken before: whoever opens logs with a lower one later is refused (StaleEpoch).

    What is the process's, and not one worker's, is shown by the storage that they share.
    """

    def __init__(self, shared: "PostgresStorage", start_epoch: StartEpoch) -> None:
        self._shared, self.start_epoch = shared, start_epoch

    @property
    def sync_times(self) -> SyncTimes | None:
        return None

    @property
    def problem(self) -> str | None:
        return failure_of(self._logs)

    @property
    def warnings(self) -> dict[str, str]:
        return snapshot_warnings(self._logs)

    @property
    def buffer_numbers(self) -> BufferNumbers | None:
        shared = self._shared.buffer_numbers
        return None if shared is None else BufferNumbers(0, 0, 0, shared.is_in_use)

    @property
    def is_taken_over(self) -> bool:
        """Another start has opened a log that this one had open."""
        return any(log.failure == TAKEN_OVER for log in self._logs)

    @property
    def _logs(self) -> list[PostgresLog]:
        return self._shared.logs_of(self.start_epoch)

    async def open_log(self, log_id: str, options: LogOptions) -> PostgresLog:
        return await self._shared.open_owned(log_id, options, self.start_epoch)

    async def delete_logs(self, directory: str) -> None:
        await self._shared.delete_logs(directory)

    async def discard_logs(self, directory: str) -> None:
        await self._shared.discard_logs(directory, self.start_epoch)

    async def list_logs(self, prefix: str = "") -> list[str]:
        return await self._shared.list_logs(prefix)

    async def next_start_epoch(self) -> StartEpoch:
        return self.start_epoch

    async def discard(self) -> None:
        """Closes every log, and writes nothing to them any more."""
        for log in self._logs:
            await log.discard()

    async def close(self) -> None:
        await self._shared.close_logs(self.start_epoch)


def failure_of(logs: Sequence[PostgresLog]) -> str | None:
    failed = [f"{log.log_id}: {log.failure}" for log in logs if log.failure]
    return f"offline for writes: {'; '.join(failed[:3])}" if failed else None


def snapshot_warnings(logs: Sequence[PostgresLog]) -> dict[str, str]:
    return {log.log_id: "; ".join(log.snapshot_problems) for log in logs if log.snapshot_problems}
