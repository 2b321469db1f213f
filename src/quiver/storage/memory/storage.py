"""The memory engine: logs in dictionaries, for tests and everything that may be forgotten."""

import re
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from quiver.log.memory_frames import MemoryFrames
from quiver.log.segment_appender import SegmentLimits
from quiver.model.errors import Closed, InvalidRequest
from quiver.model.names import StartEpoch
from quiver.records.header import StampedFrame
from quiver.storage.memory.compaction import MemoryCompaction
from quiver.storage.memory.slice import MemorySlice
from quiver.storage.memory.snapshots import MemorySnapshots
from quiver.storage.port import Compacted, Compaction, Dirt, FrameSlice, LastFrame, LogOptions, Snapshot
from quiver.system.randomness import SystemRandomness
from quiver.system.threads import OnEnd, ThreadPool, Threads

P = ParamSpec("P")
T = TypeVar("T")

_LOG_ID = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")


def check_log_id(log_id: str) -> str:
    if not _LOG_ID.fullmatch(log_id):
        raise InvalidRequest(problem=f"{log_id!r} is not a log id: plain words with slashes between them")
    return log_id


class MemoryLog:
    """A Log in memory. Every durability is the same here: as long as the storage object lives."""

    def __init__(self, log_id: str, options: LogOptions, threads: Threads) -> None:
        self._frames = MemoryFrames(log_id, 0, _limits(options))
        self._compaction = MemoryCompaction(self._frames, SystemRandomness(), threads)
        self._snapshots = MemorySnapshots()
        self._refused: list[str] = []
        self._log_id = log_id
        self.open = True

    @property
    def start_offset(self) -> int:
        return self._frames.start_offset

    @property
    def end_offset(self) -> int:
        return self._frames.end_offset

    @property
    def last_frame(self) -> LastFrame:
        return LastFrame(self._frames.last_epoch, self._frames.frames_end)

    @property
    def readable_offset(self) -> int:
        return self._frames.end_offset

    @property
    def size_bytes(self) -> int:
        return self._frames.size_bytes

    @property
    def last_append_time_ms(self) -> int:
        return self._frames.last_append_time_ms

    @property
    def failure(self) -> str | None:
        return None

    @property
    def outage(self) -> None:
        return None

    @property
    def has_buffer(self) -> bool:
        return False

    @property
    def is_buffering(self) -> bool:
        return False

    def notify_readable(self, raised: Callable[[], None]) -> None:
        """Only appends raise it."""

    async def append(self, frames: Sequence[StampedFrame], *, sync: bool = True, alone: bool = False) -> None:
        self.append_at_once(frames)

    def begin_append(self, frames: Sequence[StampedFrame], on_end: Callable[[Exception | None], None]) -> bool:
        return False

    def append_at_once(self, frames: Sequence[StampedFrame], *, sync: bool = True) -> bool:
        if not self.open:
            raise Closed(what=f"log {self._log_id}")
        self._frames.append(frames)
        return True

    async def sync(self) -> None:
        pass

    async def read(self, offset: int, *, max_bytes: int, end_offset: int | None = None) -> FrameSlice | None:
        frames = self._frames.read(offset, max_bytes=max_bytes, end_offset=end_offset)
        return None if frames is None else MemorySlice(*frames)

    async def offset_for_time(self, time_ms: int) -> int:
        return self._frames.offset_for_time(time_ms)

    async def end_offset_of_epoch(self, epoch: int) -> int:
        return self._frames.end_offset_of_epoch(epoch)

    async def find_priority(self, offset: int, priorities: int) -> int | None:
        return self._frames.find_priority(offset, priorities)

    async def count_by_priority(self, offset: int) -> list[int]:
        return self._frames.count_by_priority(offset)

    async def truncate(self, offset: int) -> None:
        self._frames.truncate(offset)
        self._compaction.cut(offset)
        self._snapshots.remove_above(offset)

    async def skip_to(self, offset: int) -> None:
        self._frames.end_offset = max(self._frames.end_offset, offset)

    async def drop_front(self, offset: int) -> int:
        return self._frames.drop_front(offset)

    async def roll(self) -> None:
        self._frames.roll()

    def removed_count(self, offset: int) -> int:
        return self._frames.removed.message_count(offset, self.start_offset)

    async def retention_offset(self, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None) -> int:
        return self._frames.retention_offset(
            now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes
        )

    @property
    def clean_to(self) -> int:
        return self._compaction.progress.clean_to

    def dirt(self, compaction: Compaction) -> Dirt:
        return self._compaction.dirt(compaction)

    async def compact(self, compaction: Compaction) -> Compacted:
        return await self._compaction.run(compaction)

    async def save_snapshot(self, offset: int, data: bytes, *, sync: bool = False) -> None:
        self._snapshots.save(offset, data)

    async def load_snapshot(self) -> Snapshot | None:
        return self._snapshots.newest(self.end_offset)

    @property
    def snapshot_problems(self) -> Sequence[str]:
        return self._refused

    def refuse_snapshot(self, offset: int, problem: str) -> None:
        self._snapshots.remove(offset)
        self._refused.append(f"the snapshot at {offset} is not used: {problem}")

    def configure(self, options: LogOptions) -> None:
        self._frames.limits = _limits(options)

    async def close(self) -> None:
        self.open = False


def _limits(options: LogOptions) -> SegmentLimits:
    return SegmentLimits(options.segment_bytes, options.roll_after_ms)


class _ThreadOnDemand:
    """One thread, started by the first call. After `close` the next call starts another: logs can be opened again."""

    def __init__(self) -> None:
        self._pool: ThreadPool | None = None

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._open().run(call, *args, **kwargs)

    def begin(self, call: Callable[[], object], on_end: OnEnd) -> None:
        self._open().begin(call, on_end)

    def run_at_once(self, call: Callable[[], object]) -> bool:
        return self._open().run_at_once(call)

    def _open(self) -> ThreadPool:
        if self._pool is None:
            self._pool = ThreadPool(1, "memory")
        return self._pool

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


class MemoryStorage:
    """A Storage that lives as long as the object: what is closed can be opened again. `threads` stay the caller's."""

    def __init__(self, threads: Threads | None = None) -> None:
        self._own_thread = _ThreadOnDemand()
        self._threads = threads or self._own_thread
        self._logs: dict[str, MemoryLog] = {}
        self._epoch = 0

    @property
    def sync_times(self) -> None:
        return None

    @property
    def problem(self) -> str | None:
        return None

    @property
    def warnings(self) -> dict[str, str]:
        return {}

    @property
    def buffer_numbers(self) -> None:
        return None

    async def open_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        log = self._logs.get(log_id)
        if log is None:
            log = self._logs[log_id] = self._new_log(check_log_id(log_id), options)
        log.open = True
        log.configure(options)
        return log

    def _new_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        return MemoryLog(log_id, options, self._threads)

    async def delete_logs(self, directory: str) -> None:
        await self.discard_logs(directory)

    async def discard_logs(self, directory: str) -> None:
        below = f"{check_log_id(directory)}/"
        for log_id in [each for each in self._logs if each == directory or each.startswith(below)]:
            await self._logs.pop(log_id).close()

    async def list_logs(self, prefix: str = "") -> list[str]:
        return sorted(log_id for log_id in self._logs if log_id.startswith(prefix))

    async def next_start_epoch(self) -> StartEpoch:
        self._epoch += 1
        return StartEpoch(self._epoch)

    async def close(self) -> None:
        for log in self._logs.values():
            await log.close()
        self._own_thread.close()
