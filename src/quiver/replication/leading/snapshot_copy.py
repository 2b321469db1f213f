"""Copies the newest snapshot of a log to a follower, in chunks."""

from collections.abc import Awaitable, Callable
from typing import Any

import google_crc32c

from quiver.replication.leading.led_log import LedLog
from quiver.replication.messages import Position, SnapshotChunk


class SnapshotCopy:
    def __init__(
        self,
        call: Callable[..., Awaitable[Position]],
        slow_down: Callable[[int], Awaitable[None]],
        chunk_bytes: int,
    ) -> None:
        """`slow_down` is called with the size of each chunk, after it was sent."""
        self._call, self._slow_down, self._chunk_bytes = call, slow_down, chunk_bytes

    async def send(self, log: LedLog) -> int:
        """Returns the offset of the snapshot that the follower has then. It keeps those that it had."""
        snapshot = await log.log.load_snapshot()
        if snapshot is None:
            return log.snapshot_offset
        offset, data = snapshot.offset, memoryview(snapshot.data)
        fields: dict[str, Any] = {
            "number": log.number,
            "offset": offset,
            "size_bytes": len(data),
            "crc": int(google_crc32c.value(snapshot.data)),
        }
        position = 0
        while True:
            chunk = data[position : position + self._chunk_bytes]
            found = await self._call(SnapshotChunk, [chunk], position=position, **fields)
            each = found.logs[0] if found.logs else None
            if each is None or not each.is_aligned:
                return -1
            if each.snapshot_offset >= offset:
                return max(offset, log.snapshot_offset)
            position = min(max(each.end_offset, 0), len(data))
            await self._slow_down(len(chunk))
