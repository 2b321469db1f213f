"""The partition's tables as snapshots of its log: restored at start-up, and saved from time to time."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from quiver.model.errors import QuiverError
from quiver.model.limits import KIB, MIB
from quiver.partition.pending import Pending
from quiver.partition.replay import replay
from quiver.partition.tables import EncodedSnapshot, PartitionTables, StoredIds
from quiver.partition.transactions import Marker
from quiver.records.header import FrameHeader, StampedFrame
from quiver.storage.port import Log
from quiver.storage.writer import SerialWriter
from quiver.system.clock import Clock, SteadyClock

logger = logging.getLogger(__name__)

_SNAPSHOT_BYTES = 4 * MIB
"""Or the size of the last snapshot if that is larger: a million message ids take 24 MB."""
_FRAME_BYTES = 1024
"""Added to the bytes of each frame's body: even the smallest frame takes start-up time."""
_SNAPSHOT_SECONDS = 1.0
_UNSAVED_BYTES = 32 * KIB
"""A start reads this much of a log about as fast as it reads a snapshot."""


class SavedState:
    """Snapshots are taken between two writes of the partition's writer."""

    def __init__(
        self, name: str, log: Log, tables: PartitionTables, writer: SerialWriter[Pending], clock: Clock
    ) -> None:
        self._name = name
        self._log = log
        self._tables = tables
        self._writer = writer
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._bytes_since = 0
        self._snapshot_bytes = 0
        self._has_left_out = False
        """Messages were left out of frames since the last snapshot: the log does not tell how many."""
        self._saved_at = clock.monotonic()
        self._task: asyncio.Task[None] | None = None
        self.memory_loss: str | None = None
        """What the partition has forgotten about its producers because its snapshots are damaged."""
        self.offset = 0
        """Everything that frames below this offset say is in a snapshot."""

    def now_ms(self) -> int:
        """The time of the next append: never before the last one, even if the clock was set back."""
        return max(self._clock.now_ms(), self._log.last_append_time_ms)

    # start-up

    async def recover(self) -> None:
        """Brings the tables up to date: the newest snapshot, then the frames after it.

        If snapshots are damaged and the log does not reach back to a good one, only the log is used: it has every
        message, and `memory_loss` says what is missing.
        """
        offset = self._log.start_offset
        reach = await self._restore()
        if reach < offset and self._log.snapshot_problems:
            self.memory_loss = _memory_loss(reach, offset, self._log.snapshot_problems)
            logger.error("%s: %s", self._name, self.memory_loss)
        await replay(self._log, max(offset, reach), self._record_stored, self._wants_ids)
        ids = self._tables.message_ids
        self._steady_clock = SteadyClock(self._clock, at_least_ms=ids.newest_ms)
        ids.go_by(self._steady_clock.now_ms)
        ids.expire(self.now_ms())

    async def _restore(self) -> int:
        """Returns the offset after what is restored."""
        while (snapshot := await self._log.load_snapshot()) is not None:
            try:
                self._tables.restore(snapshot.data)
            except (msgspec.DecodeError, ValueError) as error:
                self._log.refuse_snapshot(snapshot.offset, f"its content cannot be decoded ({error})")
                continue
            self.offset = snapshot.offset
            self._snapshot_bytes = len(snapshot.data)
            return snapshot.offset
        return 0

    def _wants_ids(self, header: FrameHeader) -> bool:
        ids = self._tables.message_ids
        return ids.counts(header) and header.append_time_ms + ids.window_ms > self._clock.now_ms()

    def _record_stored(self, header: FrameHeader, marker: Marker | None, ids: StoredIds | None) -> None:
        self._tables.record_stored(header, marker, ids)
        self._bytes_since += header.length + _FRAME_BYTES

    # saving

    def note_left_out(self) -> None:
        """Messages were left out of a frame because their ids are known."""
        self._has_left_out = True

    def note_written(self, frames: Sequence[StampedFrame]) -> None:
        """Called between two writes: starts a snapshot if enough was written since the last one."""
        for header, _, _ in frames:
            self._bytes_since += header.length + _FRAME_BYTES
        if self._bytes_since < _SNAPSHOT_BYTES or self._bytes_since < self._snapshot_bytes:
            return
        if self._clock.monotonic() - self._saved_at >= _SNAPSHOT_SECONDS:
            self._begin()

    async def save(self) -> None:
        """Saves what is known, so that the next start does not read the log; nothing if it would read very little."""
        tells_all = not self._has_left_out and not len(self._tables.message_ids)
        if self._bytes_since > (_UNSAVED_BYTES if tells_all else 0) and self._log.failure is None:
            await self._writer.exclusive(self._begin_in_turn)
        await self.finish()

    async def save_now(self, *, roll: bool) -> None:
        """Saves a snapshot of the current state, then rolls the log if `roll` is set; see `offset`."""

        async def close_and_save() -> None:
            if roll:
                await self._log.roll()
            self._begin()

        await self.finish()
        await self._writer.exclusive(close_and_save)
        await self.finish()

    async def save_below(self, offset: int) -> None:
        """Called between two writes: puts what frames below an offset say into a snapshot, if that can be written."""
        if self.offset < min(offset, self._log.end_offset) and self._log.failure is None:
            await self.finish()
            self._begin()
            await self.finish()

    async def finish(self) -> None:
        """Waits for a snapshot that is being saved, which goes on if the caller is cancelled: others wait for it too,
        among them the writer."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _begin_in_turn(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Only between two writes, so that the tables match the end of the log; the saving itself runs
        concurrently."""
        if self._task is not None:
            return
        tables, offset = self._tables, self._log.end_offset
        tables.producers.expire(self._steady_clock.now_ms())
        tables.transactions.forget_below(self._log.start_offset)
        tables.message_ids.expire(self.now_ms())
        snapshot = tables.snapshot()
        self._bytes_since, self._saved_at = 0, self._clock.monotonic()
        self._has_left_out = False
        self._task = asyncio.get_running_loop().create_task(self._save(offset, snapshot))

    async def _save(self, offset: int, snapshot: EncodedSnapshot) -> None:
        try:
            await self._log.sync()
            data = msgspec.msgpack.encode(snapshot)
            self._snapshot_bytes = len(data)
            await self._log.save_snapshot(offset, data)
            self.offset = max(self.offset, offset)
        except (QuiverError, OSError) as error:
            logger.warning("no snapshot of %s: %s", self._name, error)
        finally:
            self._task = None


def _memory_loss(reach: int, start: int, problems: Sequence[str]) -> str:
    return (
        f"{'; '.join(problems)}. No message is lost, but producers that sent their last between offsets {reach} and"
        f" {start} are forgotten: what they send again is stored again. Restore a good snapshot from a backup,"
        " or leave it: producers that continue are remembered from now on"
    )
