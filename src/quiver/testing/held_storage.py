"""The memory engine with yield points: a test stops a log in the middle of a call, and releases it later.

What runs in a thread, or between two awaits, happens in any order in real use, but in one order in a test. Here the
test chooses the order. The points of a call:

- `append`: nothing is written yet;
- `appended`: the frames are in the log and its `readable_offset` is raised, and the writer does not know yet;
- `sync`, `synced`: the same for a sync.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Literal

from quiver.records.header import StampedFrame
from quiver.storage.memory.compaction import MemoryCompaction
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions
from quiver.system.randomness import SystemRandomness
from quiver.system.threads import Threads

Point = Literal["append", "appended", "sync", "synced"]


class Hold:
    """One call that waits at a point."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._released = asyncio.Event()
        self._error: Exception | None = None

    async def reached(self) -> None:
        """Returns when a call has come to the point."""
        await self._reached.wait()

    def release(self, error: Exception | None = None) -> None:
        """Releases the call, or lets it fail with an error at this point."""
        self._error = error
        self._released.set()

    async def stop(self) -> None:
        self._reached.set()
        await self._released.wait()
        if self._error is not None:
            raise self._error


class HeldStorage(MemoryStorage):
    """Without holds it does what the memory engine does, but durable appends are awaited, as those of files are."""

    def __init__(self) -> None:
        super().__init__()
        self._holds: defaultdict[tuple[str, Point], deque[Hold]] = defaultdict(deque)
        self._all: list[Hold] = []

    def hold(self, log_id: str, point: Point) -> Hold:
        """The next call of a log that reaches a point stops there; with several holds each gets one call, in
        order."""
        hold = Hold()
        self._holds[log_id, point].append(hold)
        self._all.append(hold)
        return hold

    def release_all(self) -> None:
        """Nothing stops any more."""
        self._holds.clear()
        for hold in self._all:
            hold.release()

    def is_held(self, log_id: str, *points: Point) -> bool:
        return any(self._holds[log_id, point] for point in points)

    async def come_to(self, log_id: str, point: Point) -> None:
        holds = self._holds[log_id, point]
        if holds:
            await holds.popleft().stop()

    def as_after_a_kill(self) -> "HeldStorage":
        """A storage with what a broker would find if this one were killed now and started again."""
        left = HeldStorage()
        left._epoch = self._epoch
        for log_id, log in self._logs.items():
            assert isinstance(log, HeldLog)
            left._logs[log_id] = log.copied(left)
        return left

    def _new_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        return HeldLog(log_id, options, self, self._threads)


class HeldLog(MemoryLog):
    def __init__(self, log_id: str, options: LogOptions, storage: HeldStorage, threads: Threads) -> None:
        super().__init__(log_id, options, threads)
        self._threads = threads
        self._storage = storage
        self._options = options
        self._is_synced = options.durability == "fsync"
        self._begun: set[asyncio.Task[None]] = set()

    def copied(self, storage: HeldStorage) -> "HeldLog":
        other = HeldLog(self._log_id, self._options, storage, self._threads)
        other._frames = deepcopy(self._frames)
        other._compaction = MemoryCompaction(other._frames, SystemRandomness(), self._threads)
        other._snapshots = deepcopy(self._snapshots)
        return other

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        if (self._is_synced and sync) or self._storage.is_held(self._log_id, "append", "appended"):
            return False
        return super().append_at_once(frames)

    def begin_append(self, frames: Sequence[StampedFrame], on_end: Callable[[Exception | None], None]) -> bool:
        if not self._is_synced:
            return False
        task = asyncio.get_running_loop().create_task(self._append_begun(frames, on_end))
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return True

    async def _append_begun(self, frames: Sequence[StampedFrame], on_end: Callable[[Exception | None], None]) -> None:
        error: Exception | None = None
        try:
            await self.append(frames)
        except Exception as problem:
            error = problem
        on_end(error)

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        await self._storage.come_to(self._log_id, "append")
        super().append_at_once(frames)
        await self._storage.come_to(self._log_id, "appended")

    async def sync(self) -> None:
        await self._storage.come_to(self._log_id, "sync")
        await super().sync()
        await self._storage.come_to(self._log_id, "synced")
