"""A journal: the log of a state machine, with snapshots so that start-up does not replay history.

Records are bytes, one message each; records that are queued together share a frame and a sync. There are two ways
to use it, and an owner keeps to one:

- `append`: `apply` is the only way into the owner's state. It sees each record once, in order, after it is durable,
  live as at start-up.
- `write`: the owner changes its state first and then writes what it did; `apply` is called at start-up only. When a
  write fails the owner takes its change back. A snapshot may hold changes whose records come after it, so applying
  a record whose change is there already must change nothing.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import NamedTuple

import msgspec

from quiver.model.errors import Closed, CorruptData, FrameTooLarge, InvalidFrame, QuiverError, ShuttingDown
from quiver.model.limits import MIB
from quiver.model.priority import Priority
from quiver.records.build import build_frame
from quiver.records.header import StampedFrame, stamp, unpack_header
from quiver.records.read import open_frame, split_frames
from quiver.records.single import NO_IDENTITY, is_single, single_frame
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.port import Log, LogOptions, Snapshot, Storage
from quiver.storage.writer import Rest, SerialWriter
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

OPTIONS = LogOptions(durability="fsync", segment_bytes=4 * MIB)
OPTIONS_FOR_WRITE = LogOptions(durability="interval", segment_bytes=4 * MIB, syncs_what_counts=True)
"""For owners that use `write`, which syncs where it is asked to."""
SNAPSHOTS_KEPT = 3
_FRAME_BYTES = 16 * MIB
_READ_BYTES = 4 * MIB
_TURN_BYTES = 256 * 1024
_SNAPSHOT_AFTER_BYTES = 4 * MIB
_NOTHING = b""
"""The first snapshot of a journal that does not begin at 0: the log was made and lost before its first record."""


class _Pending(NamedTuple):
    record: bytes
    future: "asyncio.Future[int]"
    is_applied: bool


class Journal:
    """Appends records and keeps snapshots. One owner, one event loop."""

    def __init__(self, log: Log, *, epoch: int, clock: Clock, apply: Callable[[bytes], None]) -> None:
        self._log = log
        self._history = NO_HISTORY
        self._epoch = epoch
        self._clock = clock
        self._apply = apply
        self._writer: SerialWriter[_Pending] = SerialWriter(self._write, batch_bytes=4 * MIB)
        self._bytes_since = 0
        self._snapshot_bytes = 0
        self._snapshot_offsets: deque[int] = deque(maxlen=SNAPSHOTS_KEPT)
        self._changed_at: float | None = None
        self._failures = 0
        self._queued = self._ended = 0
        """Records that were handed to the writer, and those of them that were written or refused."""
        self._next_sync: asyncio.Future[None] | None = None
        self._sync_task: asyncio.Task[None] | None = None
        self._is_let_go = False

    @classmethod
    async def open(
        cls,
        storage: Storage,
        log_id: str,
        *,
        epoch: int,
        clock: Clock,
        restore: Callable[[bytes], None],
        apply: Callable[[bytes], None],
        options: LogOptions = OPTIONS,
        history: History = NO_HISTORY,
    ) -> "Journal":
        """Opens the journal, restores the newest snapshot that can be used and applies every record after it.

        `restore` may be called again after it raised, with an older one. Raises CorruptData if what is left does not
        tell the whole: a state machine is never taken for empty because its files are damaged.
        """
        log = await storage.open_log(log_id, options)
        journal = cls(log, epoch=epoch, clock=clock, apply=apply)
        journal._history = history
        try:
            await journal._replay(await journal._restore(log_id, restore))
        except CorruptData:
            await log.close()
            raise
        except (InvalidFrame, msgspec.DecodeError) as error:
            await log.close()
            problem = f"a record cannot be read ({error}); a newer version of Quiver may have written it"
            raise CorruptData(where=log_id, problem=problem, next_offset=log.end_offset) from error
        return journal

    async def _restore(self, log_id: str, restore: Callable[[bytes], None]) -> int:
        """Returns the offset after what is restored."""
        log, offset = self._log, self._log.start_offset
        snapshot = await self._load(restore)
        if snapshot is not None and snapshot.offset >= offset:
            self._snapshot_bytes = len(snapshot.data)
            self._snapshot_offsets.append(snapshot.offset)
            return snapshot.offset
        is_whole = offset == 0 and (log.end_offset > 0 or not log.snapshot_problems)
        if snapshot is None and is_whole:
            return 0
        if snapshot is not None or offset < log.end_offset or log.snapshot_problems:
            raise _lost_front(log_id, log, snapshot)
        await log.save_snapshot(offset, _NOTHING)
        return offset

    async def _load(self, restore: Callable[[bytes], None]) -> Snapshot | None:
        while (snapshot := await self._log.load_snapshot()) is not None:
            try:
                if snapshot.data != _NOTHING:
                    restore(snapshot.data)
            except Exception as error:
                self._log.refuse_snapshot(snapshot.offset, f"its content is not understood ({error})")
            else:
                return snapshot
        return None

    async def append(self, record: bytes) -> int:
        """Returns the record's offset once it is on disk and applied."""
        return await self._submit(record, is_applied=False)

    async def write(self, record: bytes, *, sync: bool) -> None:
        """Returns once a record is written (the process may be killed) or, with `sync`, on disk (so may the machine).

        It is queued before the first await: records come in the order of the calls.
        """
        if not self.write_at_once(record):
            await self._submit(record, is_applied=True)
        if sync:
            await self.sync()

    def _submit(self, record: bytes, *, is_applied: bool) -> "asyncio.Future[int]":
        if self._is_let_go:
            raise ShuttingDown()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.submit(_Pending(record, future, is_applied), len(record))
        self._queued += 1
        return future

    async def written(self) -> None:
        """Returns when every record that was queued so far is written or refused."""
        queued = self._queued
        while self._ended < queued:
            await self._writer.exclusive(_nothing)  # between two batches

    def write_at_once(self, record: bytes) -> bool:
        """Writes a record as `write` does if that needs no waiting; False, with nothing changed, if it does."""
        if not self._writer.is_idle:
            return False
        stamped = self._stamped([record])
        try:
            if not self._log.append_at_once([stamped]):
                return False
        except QuiverError as error:
            self._failures += 1
            raise _shown(error) from None
        self._note_change(stamped.header.frame_bytes)
        return True

    async def sync(self) -> None:
        """Returns when everything written so far is on disk; callers that come while a sync runs share the next
        one."""
        if self._next_sync is None:
            self._next_sync = asyncio.get_running_loop().create_future()
        if self._sync_task is None:
            self._sync_task = asyncio.get_running_loop().create_task(self._run_syncs())
        await asyncio.shield(self._next_sync)

    @property
    def log(self) -> Log:
        """For those who read what was written."""
        return self._log

    @property
    def replay_bytes(self) -> int:
        """What the next start would have to replay."""
        return self._bytes_since

    @property
    def snapshot_bytes(self) -> int:
        """Of the last one."""
        return self._snapshot_bytes

    def snapshot_due(self, after_seconds: float) -> bool:
        """Whether the journal has grown enough, or has been changed long enough ago, for a new snapshot."""
        if self._changed_at is None:
            return False
        if self._bytes_since >= max(_SNAPSHOT_AFTER_BYTES, 4 * self._snapshot_bytes):
            return True
        return self._clock.monotonic() - self._changed_at >= after_seconds

    async def snapshot(self, encode: Callable[[], Iterable[bytes]]) -> None:
        """Saves the owner's state as it is between two writes; drops what no kept snapshot needs and is no history.

        The state comes in chunks, and the loop gets its turns between them; nothing is applied meanwhile.
        """
        await self._writer.exclusive(lambda: self._save(encode))

    async def snapshot_concurrently(
        self, encode: Callable[[], Iterable[bytes]], written: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """As `snapshot`, for owners that `write`: they go on, and their state may change between the chunks.

        `written` is for owners that queue records before they write them: it returns when all of them are written.
        If a write fails meanwhile, the state may hold what is then taken back: that snapshot is not kept.
        """
        await self._save(encode, written or self.written)

    def doubt_snapshot(self) -> None:
        """The owner's state has changed in a way that may be taken back: a snapshot under way is not kept."""
        self._failures += 1

    async def _save(
        self, encode: Callable[[], Iterable[bytes]], written: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        offset, failures, since = self._log.end_offset, self._failures, self._bytes_since
        data = await _joined(encode())
        if written is not None:
            await written()
        await self._log.sync()
        if self._failures != failures:
            return
        await self._log.save_snapshot(offset, data)
        self._snapshot_offsets.append(offset)
        if len(self._snapshot_offsets) == SNAPSHOTS_KEPT:
            await self._history.drop_front(self._log, self._snapshot_offsets[0], now_ms=self._clock.now_ms())
        self._bytes_since, self._snapshot_bytes = self._bytes_since - since, len(data)
        self._changed_at = self._clock.monotonic() if self._bytes_since else None

    async def drain(self) -> None:
        """Returns when nothing is under way."""
        await self._writer.drain()
        if self._sync_task is not None:
            await self._sync_task

    async def abandon(self) -> None:
        """Finishes what was accepted and takes nothing more: the log is about to be removed. The owner is not
        referred to any more, so that it is freed at once."""
        await self.drain()
        self._is_let_go = True
        self._writer.let_go()
        self._apply = _ignore

    async def close(self) -> None:
        await self.drain()
        await self._log.close()

    async def _replay(self, offset: int) -> None:
        while (part := await self._log.read(offset, max_bytes=_READ_BYTES)) is not None:
            try:
                data = await part.read()
            finally:
                part.release()
            for position, header in split_frames(data):
                for record in open_frame(data, position).values():
                    self._apply(record or b"")
                self._note_change(header.frame_bytes)
                offset = header.next_offset

    def _note_change(self, size: int) -> None:
        self._bytes_since += size
        if self._changed_at is None:
            self._changed_at = self._clock.monotonic()

    def _stamped(self, records: list[bytes]) -> StampedFrame:
        now_ms = max(self._clock.now_ms(), self._log.last_append_time_ms)
        frame = _frame(records, now_ms)
        if len(frame) > _FRAME_BYTES:
            raise FrameTooLarge(size=len(frame), limit=_FRAME_BYTES)
        base, epoch = self._log.end_offset, self._epoch
        return stamp(frame, unpack_header(frame), base_offset=base, leader_epoch=epoch, append_time_ms=now_ms)

    async def _run_syncs(self) -> None:
        try:
            while self._next_sync is not None:
                waiting, self._next_sync = self._next_sync, None
                try:
                    await self._log.sync()
                except Exception as error:
                    self._failures += 1
                    waiting.set_exception(_shown(error))
                    waiting.exception()  # the caller may be gone
                else:
                    waiting.set_result(None)
        finally:
            self._sync_task = None

    def _write(self, batch: list[_Pending]) -> Rest | bool:
        try:
            stamped = self._stamped([pending.record for pending in batch])
        except Exception as error:
            self._fail(batch, error)
            return True
        return self._writer.append(self._log, [stamped], partial(self._end_append, batch, stamped))

    def _end_append(self, batch: list[_Pending], stamped: StampedFrame, error: Exception | None) -> None:
        if error is None:
            self._finish(batch, stamped)
        else:
            self._fail(batch, error)

    def _fail(self, batch: list[_Pending], error: Exception) -> None:
        self._failures += 1
        self._ended += len(batch)
        for pending in batch:
            _fail(pending, _shown(error))

    def _finish(self, batch: list[_Pending], stamped: StampedFrame) -> None:
        """The records are on disk."""
        self._ended += len(batch)
        self._note_change(stamped.header.frame_bytes)
        for offset, pending in enumerate(batch, stamped.header.base_offset):
            try:
                if not pending.is_applied:
                    self._apply(pending.record)
            except Exception as error:  # it is on disk, and those after it have to be applied too
                logger.exception("a record of a journal was not applied")
                _fail(pending, error)
            else:
                if not pending.future.done():
                    pending.future.set_result(offset)


async def _nothing() -> None:
    pass


def _ignore(record: bytes) -> None:
    """Nothing is applied any more."""


def _shown(error: Exception) -> Exception:
    """A journal is closed when the broker stops: later writers are told so, and may try again."""
    return ShuttingDown() if isinstance(error, Closed) else error


def _fail(pending: _Pending, error: Exception) -> None:
    if not pending.future.done():
        pending.future.set_exception(error)


def _lost_front(log_id: str, log: Log, snapshot: Snapshot | None) -> CorruptData:
    reach = "no snapshot is whole" if snapshot is None else f"the newest good snapshot ends at {snapshot.offset}"
    damage = "".join(f"; {problem}" for problem in log.snapshot_problems)
    return CorruptData(
        f"{log_id} cannot be read: its log begins at offset {log.start_offset}, {reach}{damage}. What it held before"
        f" is lost unless one of its snapshots is restored: put the files of {log_id} from a backup in their place,"
        " or start the version of Quiver that wrote them, and restart the broker",
        where=log_id,
        problem=f"its log begins at {log.start_offset} and {reach}",
        next_offset=log.start_offset,
    )


async def _joined(chunks: Iterable[bytes]) -> bytes:
    joined, turn = bytearray(), 0
    for chunk in chunks:
        joined += chunk
        turn += len(chunk)
        if turn >= _TURN_BYTES:
            turn = 0
            await asyncio.sleep(0)
    return bytes(joined)


def _frame(records: list[bytes], now_ms: int) -> bytes | bytearray:
    """Most writes are one small record, for which a single frame takes a third of the time."""
    if len(records) == 1 and is_single(records[0], None):
        return single_frame(
            records[0],
            None,
            timestamp_ms=now_ms,
            priority=Priority.NORMAL,
            identity=NO_IDENTITY,
        )
    return build_frame(records, timestamp_ms=now_ms)
