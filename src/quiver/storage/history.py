"""How much of a journal is kept beyond what its snapshots need, for later readers."""

from typing import NamedTuple

from quiver.storage.port import Log


class History(NamedTuple):
    """Segments of a journal whose last record is at most `keep_ms` old, as long as all of it has `keep_bytes`."""

    keep_ms: int = 0
    keep_bytes: int = 0
    """0: what no snapshot needs goes at once."""

    async def drop_front(self, log: Log, offset: int, *, now_ms: int) -> None:
        """Removes whole segments below the offset that are not history any more."""
        if not self.keep_bytes:
            await log.drop_front(offset)
            return
        no_history = await log.retention_offset(
            now_ms=now_ms, retention_ms=self.keep_ms, retention_bytes=self.keep_bytes
        )
        await log.drop_front(min(no_history, offset))


NO_HISTORY = History()
