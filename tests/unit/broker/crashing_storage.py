"""The memory engine with a disk behind it: slow or full if told to; a power cut takes what was not synced."""

import asyncio
import random
from typing import Any

from quiver.model.errors import DiskFull
from quiver.records.header import read_stamped_header
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions


class CrashingLog:
    """A log as one life of the broker sees it; after that life it changes nothing any more."""

    def __init__(self, log: MemoryLog, storage: "CrashingStorage", log_id: str, options: LogOptions) -> None:
        self._log = log
        self._storage = storage
        self._life = storage.life
        self._id = log_id
        self._syncs = options.durability == "fsync"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append_at_once(self, frames: Any, *, sync: bool = True) -> bool:
        if (self._syncs and sync) or self._storage.is_slow:
            return False
        self._check_room()
        return self._log.append_at_once(frames)

    async def append(self, frames: Any, *, sync: bool = True, alone: bool = False) -> None:
        await self._storage.pause()
        self._check_room()
        self._log.append_at_once(frames)
        if self._syncs and sync:
            await self.sync()

    async def sync(self) -> None:
        end = self._log.end_offset
        await self._storage.pause()
        self._check_alive()
        self._storage.synced[self._id] = max(end, self._storage.synced.get(self._id, 0))

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        await self._storage.pause()
        self._check_room()
        await self._log.save_snapshot(offset, data, sync=sync)

    async def drop_front(self, offset: int) -> int:
        self._check_alive()
        return await self._log.drop_front(offset)

    async def close(self) -> None:
        self._check_alive()
        await self._log.close()

    def _check_room(self) -> None:
        self._check_alive()
        if self._storage.is_full and self._id.endswith(self._storage.full_logs):
            raise DiskFull(problem="it is full")

    def _check_alive(self) -> None:
        if self._life != self._storage.life:
            raise asyncio.CancelledError


class CrashingStorage(MemoryStorage):
    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.life = 0
        self.is_full = self.is_slow = False
        self.full_logs = ""
        """How the names of those end that have no room while it is full."""
        self.synced: dict[str, int] = {}

    async def open_log(self, log_id: str, options: LogOptions) -> Any:
        return CrashingLog(await super().open_log(log_id, options), self, log_id, options)

    async def pause(self) -> None:
        for _ in range(self.chance.randint(0, 5)):
            await asyncio.sleep(0)

    async def cut_power(self) -> None:
        """Of each log, some of what was not synced is gone, from a frame on."""
        for log_id, log in self._logs.items():
            synced = self.synced.get(log_id, 0)
            ends = [synced] if synced >= log.start_offset else []
            for frame in log._frames.frames():
                end = read_stamped_header(frame).next_offset
                ends += [end] if end > synced else []
            if ends and (cut := self.chance.choice(ends)) < log.end_offset:
                await log.truncate(cut)
