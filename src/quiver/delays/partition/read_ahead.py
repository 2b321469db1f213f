"""Messages that are due in a few seconds, read in the order of the schedule log rather than in that of their times.

Messages that become due together may be spread over the schedule log. Read one by one, each would need a frame to be
opened; read thousands at a time, each frame is opened once for all its messages.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from quiver.delays.partition.schedule_log import ScheduledRow, read_rows
from quiver.delays.pending import Pending
from quiver.model.limits import KIB, MIB
from quiver.storage.port import Log

_AHEAD_MS = 10_000
_MOST_MESSAGES = 16_384
_LEAST_MESSAGES = 64
_ROW_BYTES = KIB
"""The memory that a message takes in addition to its own bytes, estimated generously."""


class MemoryShare:
    """Memory that all partitions share for reading ahead."""

    def __init__(self, limit_bytes: int = 64 * MIB) -> None:
        self.left_bytes = limit_bytes


class _ReadRun(NamedTuple):
    """What one read returned: messages up to a time, by their place."""

    until_ms: int
    rows: dict[int, ScheduledRow]
    size_bytes: int


class ReadAhead:
    """Belongs to one partition. It only reads; the owner knows which messages have left meanwhile."""

    def __init__(self, log: Log, pending: Pending, share: MemoryShare) -> None:
        self._log = log
        self._pending = pending
        self._share = share
        self._runs: deque[_ReadRun] = deque()
        self._reached = (0, 0)
        """Time and id after the last message that was read."""
        self._task: asyncio.Task[None] | None = None

    def next_ms(self, now_ms: int) -> int | None:
        """When to call `fill` next; None if there is nothing to wait for, or a read is running."""
        if self._task is not None or self._room() < _LEAST_MESSAGES:
            return None
        times_ms, _ = self._pending.coming(max(self._reached, (now_ms, 0)), sys.maxsize, 1)
        return int(times_ms[0]) - _AHEAD_MS // 2 if len(times_ms) else None

    def fill(self, now_ms: int) -> None:
        """Starts to read what comes next, if it is time."""
        self._let_go(now_ms)
        due_ms = self.next_ms(now_ms)
        if due_ms is not None and due_ms <= now_ms:
            self._task = asyncio.get_running_loop().create_task(self._read(now_ms))

    def take(self, places: Sequence[int]) -> dict[int, ScheduledRow]:
        """Takes those of some messages that were read ahead; each is returned once."""
        found = {}
        for place in places:
            for run in self._runs:
                if (row := run.rows.pop(place, None)) is not None:
                    found[place] = row
                    break
        return found

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._runs:
            self._share.left_bytes += self._runs.popleft().size_bytes

    def _room(self) -> int:
        return min(_MOST_MESSAGES, self._share.left_bytes // (2 * _ROW_BYTES))

    def _let_go(self, now_ms: int) -> None:
        while self._runs and (self._runs[0].until_ms + _AHEAD_MS < now_ms or not self._runs[0].rows):
            self._share.left_bytes += self._runs.popleft().size_bytes

    async def _read(self, now_ms: int) -> None:
        since = max(self._reached, (now_ms, 0))
        times_ms, ids = self._pending.coming(since, now_ms + _AHEAD_MS, self._room())
        limit = len(ids) * _ROW_BYTES
        self._share.left_bytes -= 2 * limit
        used = 0
        try:
            if len(ids):
                rows, _ = await read_rows(self._log, self._pending.places(ids).tolist(), limit)
                used = sum(_ROW_BYTES + row.size for row in rows.values())
                self._runs.append(_ReadRun(int(times_ms[-1]), rows, used))
                self._reached = (int(times_ms[-1]), int(ids[-1]) + 1)
        finally:
            self._share.left_bytes += 2 * limit - used
            self._task = None
