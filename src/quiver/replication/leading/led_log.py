"""A log that this node leads: the local log, who waits for it, and what followers have to be told of it."""

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

from quiver.model.errors import NotLeader, OffsetOutOfRange
from quiver.records.header import StampedFrame
from quiver.replication.leading.recent_frames import Buffer, RecentFrames, whole_frames
from quiver.replication.progress import LogProgress
from quiver.storage.port import Compaction, Log, LogOptions

_NO_PROGRESS = LogProgress(0)


class Waiters:
    """Who waits until an offset is passed."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, offset: int) -> "asyncio.Future[None]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (offset, next(self._numbers), future))
        return future

    def pass_(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)

    def fail(self, error: Exception) -> None:
        while self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_exception(error)


class CompactionOrder(NamedTuple):
    number: int
    compaction: Compaction
    snapshot_offset: int


class LedLog:
    def __init__(self, number: int, log_id: str, log: Log, options: LogOptions) -> None:
        self.number, self.log_id, self.log = number, log_id, log
        self.options = options
        self.progress = _NO_PROGRESS
        self.recent = RecentFrames()
        self.turn = asyncio.Lock()
        """Of changes of the local log."""
        self._under_way = 0
        """Appends that have begun, and are not written and synced here."""
        self._idle = asyncio.Event()
        self._idle.set()
        self.snapshot_offset = -1
        self.compaction: CompactionOrder | None = None
        self.compacting_to = 0
        """A pass is under way, or has failed, that may take away what is below."""
        self.sync_to = 0
        """Somebody waits until everybody has synced what is below."""
        self.committing, self.syncing = Waiters(), Waiters()
        self.is_removed = False
        self.is_configured = False
        """Its owner has opened it."""
        self.on_watermark: Callable[[], None] | None = None
        """Called when the watermark may have risen."""

    @property
    def is_synced(self) -> bool:
        """Replicas confirm what they have synced; otherwise what they have written."""
        return self.options.durability == "fsync"

    def configure(self, options: LogOptions) -> None:
        self.options, self.is_configured = options, True
        self.log.configure(local_options(options))

    @property
    def complete_from(self) -> int:
        """A replica that has less begins again: what follows is not what followed then, and may lack tombstones."""
        return max(self.log.start_offset, self.log.clean_to, self.compacting_to)

    async def settle(self) -> None:
        """Returns when nothing changes the local log any more."""
        async with self.turn:
            pass
        await self._idle.wait()

    @contextmanager
    def appending(self) -> Iterator[None]:
        self._under_way += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    def wrote(self, frames: Sequence[StampedFrame]) -> None:
        self.recent.add(frames)

    def advance(self) -> None:
        self.committing.pass_(self.progress.watermark)
        self.syncing.pass_(self.progress.synced_watermark)
        if self.on_watermark is not None:
            self.on_watermark()

    def end(self) -> None:
        """Whoever waits gets NotLeader: what it wrote may be committed by the next leader or not."""
        for waiters in (self.committing, self.syncing):
            waiters.fail(NotLeader(what=self.log_id))

    async def frames(self, offset: int, end_offset: int, max_bytes: int) -> tuple[list[Buffer], int]:
        """Whole frames from an offset on, and what they are complete up to: there is nothing else below."""
        if offset >= end_offset:
            return [], end_offset
        recent = self.recent.between(offset, end_offset, max_bytes)
        if recent is not None:
            return recent
        try:
            found = await self.log.read(
                max(offset, self.log.start_offset), max_bytes=max_bytes, end_offset=end_offset
            )
        except OffsetOutOfRange:  # the front was dropped meanwhile
            return [], offset
        if found is None:
            return [], end_offset
        try:
            data = bytes(await found.read())
        finally:
            found.release()
        size, end = whole_frames(data)
        if end >= self.log.last_frame.end_offset:
            end = max(end, end_offset)
        return [memoryview(data)[:size]], end


def local_options(options: LogOptions) -> LogOptions:
    """How a replica opens its log: when to sync is decided above. Nothing is kept in memory only, so that a process
    that is started again has what it confirmed unless the machine failed."""
    return LogOptions(segment_bytes=options.segment_bytes, roll_after_ms=options.roll_after_ms)
