"""A journal: the log behind a state machine, with snapshots so that start-up does not replay history.

Records are bytes, one message each; records that are queued together share a frame and a sync. The owner's `apply`
is the only way into its state: it sees each record once, in order, after it is durable, live as at start-up.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import MIB, Limits
from quiver.records.build import build_frame
from quiver.records.check import check_frame
from quiver.records.header import stamp
from quiver.records.read import open_frame, split_frames
from quiver.storage.port import Log, LogOptions, Storage
from quiver.storage.writer import SerialWriter
from quiver.system.clock import Clock

OPTIONS = LogOptions(durability="fsync", segment_bytes=4 * MIB)
SNAPSHOTS_KEPT = 3
_LIMITS = Limits(message_bytes=16 * MIB)
_READ_BYTES = 4 * MIB
_TURN_BYTES = 256 * 1024
_SNAPSHOT_AFTER_BYTES = 4 * MIB


class _Pending(NamedTuple):
    record: bytes
    future: "asyncio.Future[int]"


class Journal:
    """Appends records and keeps snapshots. One owner, one event loop."""

    def __init__(self, log: Log, *, epoch: int, clock: Clock, apply: Callable[[bytes], None]) -> None:
        self._log = log
        self._epoch = epoch
        self._clock = clock
        self._apply = apply
        self._writer: SerialWriter[_Pending] = SerialWriter(self._write, batch_bytes=4 * MIB)
        self._bytes_since = 0
        self._snapshot_bytes = 0
        self._snapshot_offsets: deque[int] = deque(maxlen=SNAPSHOTS_KEPT)
        self._changed_at: float | None = None

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
    ) -> "Journal":
        """Opens the journal, restores the newest snapshot and applies every record behind it."""
        log = await storage.open_log(log_id, OPTIONS)
        journal = cls(log, epoch=epoch, clock=clock, apply=apply)
        offset = log.start_offset
        snapshot = await log.load_snapshot()
        if snapshot is not None:
            restore(snapshot.data)
            journal._snapshot_bytes = len(snapshot.data)
            journal._snapshot_offsets.append(snapshot.offset)
            offset = snapshot.offset
        elif offset > 0:
            problem = f"its log begins at {offset} and no snapshot of what was before is whole"
            raise CorruptData(where=log_id, problem=problem, next_offset=offset)
        if offset < log.start_offset:
            problem = f"its snapshot ends at {offset} and its log begins at {log.start_offset}"
            raise CorruptData(where=log_id, problem=problem, next_offset=log.start_offset)
        try:
            await journal._replay(offset)
        except InvalidFrame as error:
            raise CorruptData(where=log_id, problem=error.message, next_offset=log.end_offset) from error
        return journal

    async def append(self, record: bytes) -> int:
        """Returns the record's offset once it is on disk and applied."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._writer.submit(_Pending(record, future), len(record))
        return await future

    def snapshot_due(self, after_seconds: float) -> bool:
        """Whether the journal has grown enough, or has been changed long enough ago, for a new snapshot."""
        if self._changed_at is None:
            return False
        if self._bytes_since >= max(_SNAPSHOT_AFTER_BYTES, 4 * self._snapshot_bytes):
            return True
        return self._clock.monotonic() - self._changed_at >= after_seconds

    async def snapshot(self, encode: Callable[[], Iterable[bytes]]) -> None:
        """Saves the owner's state as it is between two writes, and drops what no kept snapshot needs.

        The state comes in pieces, and the loop gets its turns between them; nothing is applied meanwhile.
        """

        async def save() -> None:
            offset = self._log.end_offset
            data = await _joined(encode())
            await self._log.save_snapshot(offset, data)
            self._snapshot_offsets.append(offset)
            if len(self._snapshot_offsets) == SNAPSHOTS_KEPT:
                await self._log.drop_front(self._snapshot_offsets[0])
            self._bytes_since, self._snapshot_bytes, self._changed_at = 0, len(data), None

        await self._writer.exclusive(save)

    async def close(self) -> None:
        await self._writer.drain()
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

    async def _write(self, batch: list[_Pending]) -> None:
        now_ms = max(self._clock.now_ms(), self._log.last_append_time_ms)
        frame = build_frame([pending.record for pending in batch], timestamp_ms=now_ms)
        base = self._log.end_offset
        try:
            header = check_frame(frame, _LIMITS)
            stamped = stamp(frame, header, base_offset=base, leader_epoch=self._epoch, append_time_ms=now_ms)
            await self._log.append([stamped])
        except Exception as error:
            for pending in batch:
                if not pending.future.done():
                    pending.future.set_exception(error)
            return
        self._note_change(header.frame_bytes)
        for index, pending in enumerate(batch):
            self._apply(pending.record)
            if not pending.future.done():
                pending.future.set_result(base + index)


async def _joined(pieces: Iterable[bytes]) -> bytes:
    joined = bytearray()
    turn = 0
    for piece in pieces:
        joined += piece
        turn += len(piece)
        if turn >= _TURN_BYTES:
            turn = 0
            await asyncio.sleep(0)
    return bytes(joined)
