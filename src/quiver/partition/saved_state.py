"""What a partition knows beside its messages: brought back at start-up, and saved from time to time."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from quiver.model.errors import QuiverError
from quiver.model.limits import MIB, Limits
from quiver.model.topic import TopicConfig
from quiver.partition.message_ids import MessageIdsSnapshot, first_entries
from quiver.partition.offset_assigner import OffsetAssigner
from quiver.partition.pending import Pending
from quiver.partition.producers import ProducerTable
from quiver.partition.replay import StoredIds, replay
from quiver.partition.transactions import Marker, TransactionsSnapshot
from quiver.records.header import FrameHeader, StampedFrame
from quiver.storage.port import Log
from quiver.storage.writer import SerialWriter
from quiver.system.clock import Clock, SteadyClock

logger = logging.getLogger(__name__)

_SNAPSHOT_BYTES = 4 * MIB
"""Or the size of the last snapshot, if that is more: a million message ids take 24 MB."""
_FRAME_BYTES = 1024
"""What a frame counts for beside its bytes: small ones take start-up their own time, however few bytes they are."""
_SNAPSHOT_SECONDS = 1.0


class _PartitionSnapshot(msgspec.Struct, array_like=True):
    """What a snapshot of a partition holds."""

    producers: bytes
    transactions: TransactionsSnapshot
    message_ids: MessageIdsSnapshot = MessageIdsSnapshot()


class _EncodedSnapshot(msgspec.Struct, array_like=True):
    """The same, on its way to disk: what would change meanwhile is encoded already."""

    producers: bytes
    transactions: msgspec.Raw
    message_ids: MessageIdsSnapshot


def _memory_loss(reach: int, start: int, problems: Sequence[str]) -> str:
    return (
        f"{'; '.join(problems)}. No message is lost, but producers that sent their last between offsets {reach} and"
        f" {start} are not remembered: what they send again is stored again. Restore a good snapshot from a backup,"
        " or let it be: producers that go on are remembered from now on"
    )


class SavedState(OffsetAssigner):
    """Producers, transactions and message ids. Snapshots are taken between two writes of `_writer`."""

    _writer: SerialWriter[Pending]

    def __init__(
        self,
        name: str,
        log: Log,
        config: TopicConfig,
        *,
        epoch: int,
        clock: Clock,
        limits: Limits,
        is_schedule: bool = False,
    ) -> None:
        super().__init__(name, log, config, epoch=epoch, limits=limits, is_schedule=is_schedule)
        self._clock = clock
        self._steady_clock = SteadyClock(clock)
        self._bytes_since_snapshot = 0
        self._snapshot_bytes = 0
        self._has_left_out = False
        """Messages were left out of frames since the last snapshot: the log does not tell how many."""
        self._snapshot_at = clock.monotonic()
        self._snapshot_task: asyncio.Task[None] | None = None
        self.memory_loss: str | None = None
        """What the partition does not know of its producers any more, since its snapshots are damaged."""
        self.saved_offset = 0
        """What frames below say is in a snapshot."""

    async def recover(self) -> None:
        """Brings producers, transactions and message ids up to date: the newest snapshot, then the frames behind it.

        Where snapshots are damaged and the log does not reach back to a good one, the log is what there is: it has
        every message, and what is missing is told by `memory_loss`.
        """
        offset = self.log.start_offset
        reach = await self._restore()
        if reach < offset and self.log.snapshot_problems:
            self.memory_loss = _memory_loss(reach, offset, self.log.snapshot_problems)
            logger.error("%s: %s", self.name, self.memory_loss)
        await replay(self.log, max(offset, reach), self._record_stored, self._wants_ids)
        self._steady_clock = SteadyClock(self._clock, at_least_ms=self.message_ids.newest_ms)
        self.message_ids.go_by(self._steady_clock.now_ms)
        self.message_ids.expire(self._now_ms())

    async def _restore(self) -> int:
        """Returns the offset behind what is restored."""
        while (snapshot := await self.log.load_snapshot()) is not None:
            try:
                content = msgspec.msgpack.decode(snapshot.data, type=_PartitionSnapshot)
                producers = ProducerTable.decode(content.producers)
                self.message_ids.restore(content.message_ids)
            except (msgspec.DecodeError, ValueError) as error:
                self.log.refuse_snapshot(snapshot.offset, f"its content is not understood ({error})")
                continue
            self._producers = producers
            self.transactions.restore(content.transactions)
            self.saved_offset = snapshot.offset
            self._snapshot_bytes = len(snapshot.data)
            return snapshot.offset
        return 0

    def _wants_ids(self, header: FrameHeader) -> bool:
        in_window = header.append_time_ms + self._config.dedup_window_ms > self._clock.now_ms()
        return self.message_ids.counts(header) and in_window

    def _record_stored(self, header: FrameHeader, marker: Marker | None, ids: StoredIds | None) -> None:
        self._producers.record(header)
        self.transactions.record(header, marker)
        if marker is not None:
            self.message_ids.close(header, commit=marker.commit)
        elif ids is not None:
            self.message_ids.record(header, first_entries(*ids), is_new=False)
            self.message_ids.written()
        self._bytes_since_snapshot += header.frame_bytes + _FRAME_BYTES

    def _now_ms(self) -> int:
        """Append times never go backwards, also when the clock does."""
        return max(self._clock.now_ms(), self.log.last_append_time_ms)

    async def snapshot(self, *, beyond_bytes: int = 0) -> None:
        """Saves what is known, so that the next start does not read the log; not if it has so little to read."""
        if self._bytes_since_snapshot > beyond_bytes and self.log.failure is None:
            await self._writer.exclusive(self._begin_snapshot_in_turn)
        if self._snapshot_task is not None:
            await self._snapshot_task

    async def _save_below(self, offset: int) -> None:
        """Between two writes: what frames below an offset say is in a snapshot then, if that can be written."""
        if self.saved_offset < min(offset, self.log.end_offset) and self.log.failure is None:
            while self._snapshot_task is not None:
                await self._snapshot_task
            self._begin_snapshot()
            if self._snapshot_task is not None:
                await self._snapshot_task

    async def save_state(self, *, roll: bool) -> None:
        """Saves a snapshot of just now, behind which the log is `roll`ed if asked for; see `saved_offset`."""

        async def close_and_save() -> None:
            if roll:
                await self.log.roll()
            self._begin_snapshot()

        while self._snapshot_task is not None:
            await self._snapshot_task
        await self._writer.exclusive(close_and_save)
        if self._snapshot_task is not None:
            await self._snapshot_task

    def _snapshot_if_due(self, written: Sequence[StampedFrame]) -> None:
        self._bytes_since_snapshot += sum(frame.header.frame_bytes + _FRAME_BYTES for frame in written)
        if self._bytes_since_snapshot < max(_SNAPSHOT_BYTES, self._snapshot_bytes):
            return
        if self._clock.monotonic() - self._snapshot_at >= _SNAPSHOT_SECONDS:
            self._begin_snapshot()

    async def _begin_snapshot_in_turn(self) -> None:
        self._begin_snapshot()

    def _begin_snapshot(self) -> None:
        """Called between two writes only, so the table is the one at the end of the log; saving goes on beside it."""
        if self._snapshot_task is not None:
            return
        self._producers.expire(self._steady_clock.now_ms())
        self.transactions.forget_below(self.log.start_offset)
        offset = self.log.end_offset
        self.message_ids.expire(self._now_ms())
        transactions = msgspec.Raw(msgspec.msgpack.encode(self.transactions.snapshot()))
        content = _EncodedSnapshot(self._producers.encode(), transactions, self.message_ids.snapshot())
        self._bytes_since_snapshot, self._snapshot_at = 0, self._clock.monotonic()
        self._has_left_out = False
        self._snapshot_task = asyncio.get_running_loop().create_task(self._save_snapshot(offset, content))

    async def _save_snapshot(self, offset: int, content: _EncodedSnapshot) -> None:
        try:
            await self.log.sync()
            data = msgspec.msgpack.encode(content)
            self._snapshot_bytes = len(data)
            await self.log.save_snapshot(offset, data)
            self.saved_offset = max(self.saved_offset, offset)
        except (QuiverError, OSError) as error:
            logger.warning("no snapshot of %s: %s", self.name, error)
        finally:
            self._snapshot_task = None
