"""The write-ahead log of a data directory: small appends of all logs, synced once for everybody who waits.

docs/adr/0016-one-sync-for-many-logs.md says why, and what a start after a crash finds. Used on the loop; files are
written in a thread of its own, one batch after the other.
"""

import asyncio
import errno
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from quiver.model.limits import KIB
from quiver.storage.local.wal.files import WalFiles
from quiver.storage.local.wal.record import FORGET, FRAMES, HEADER_BYTES, encode
from quiver.system.files import Buffer
from quiver.system.pace import bounded_gather
from quiver.system.threads import Threads

SMALL_BYTES = 64 * KIB
"""Larger appends sync their segment: writing them twice would cost more."""
MAX_FULL_FILES = 3
"""When as many wait until their logs are synced, appends wait too."""
LATEST_SECONDS = 1.0
"""What nobody waits for is written this long after it was added."""
_FEW = 16
"""Appends that wait for a batch: what so few wait for may be written on the loop, unless it begins a file."""
_logger = logging.getLogger(__name__)


class DirtyLog(Protocol):
    async def flush(self) -> bool:
        """Syncs the segment that has unsynced bytes; whether everything appended before is on disk now."""
        ...


class WalBatch:
    """Records that are written with one call and synced once."""

    __slots__ = ("is_on_disk", "logs", "number", "records", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.records: list[bytes] = []
        self.logs: dict[DirtyLog, None] = {}
        self.is_on_disk: bool | None = None
        """None until it is known. False: whoever waits syncs its segment itself."""
        self.waiting: list[Callable[[], None]] = []
        """Called when it is known."""

    async def done(self) -> asyncio.CancelledError | None:
        """Returns when `is_on_disk` is known. A caller that is cancelled meanwhile waits all the same, since it has
        to end what it began, and gets the cancellation.
        """
        cancelled: asyncio.CancelledError | None = None
        while self.is_on_disk is None:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(partial(_set, waiting))
            try:
                await waiting
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def end(self, *, is_on_disk: bool) -> None:
        """Lets go of everything: each log keeps its last batch, and who waits for one refers to it."""
        self.is_on_disk = is_on_disk
        waiting, self.waiting, self.records, self.logs = self.waiting, [], [], {}
        for call in waiting:
            try:
                call()
            except Exception:  # the others must be told all the same
                _logger.exception("an append that waited for the write-ahead log was not ended")


def _set(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class WriteAheadLog:
    """One batch is written at a time, and only `_sync_files` retires files, in one task at a time."""

    def __init__(self, files: WalFiles, threads: Threads, file_bytes: int) -> None:
        self._files = files
        self._threads = threads
        self._file_bytes = file_bytes
        self._number = 1
        self._position = HEADER_BYTES
        self._batches: deque[WalBatch] = deque()
        self._logs: dict[int, dict[DirtyLog, None]] = {}
        """By the number of a file: the logs that have records in it and were not synced since."""
        self._is_writing = False
        self._idle: asyncio.Future[None] | None = None
        """What `close` waits for."""
        self._awaiting_room: asyncio.Task[None] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stuck: set[int] = set()
        """Files with records of a log that cannot be synced: they stay for the next start."""
        self._forgetting: set[int] = set()
        """Files with a FORGET: they stay as long as an earlier file does, which may have what is to be forgotten."""
        self.failures = 0
        """Rises when records were lost on their way: what was added before it rose does not count as written."""

    def add(self, log: DirtyLog, log_id: bytes, segment_base: int, position: int, data: Sequence[Buffer]) -> WalBatch:
        """Adds bytes that were written to a segment at a position; they are copied.

        Nothing is written before somebody calls `commit`, or a second has passed.
        """
        batch = self._add(FRAMES, log_id, segment_base, position, data)
        batch.logs[log] = None
        return batch

    def commit(self) -> None:
        """What was added is written as soon as what is being written now is on disk."""
        if not self._is_writing and self._batches:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write_next)  # with what else is added in this turn

    async def forget(self, prefix: str, removed: Sequence[DirtyLog] = ()) -> None:
        """Earlier records of a log, or of all logs below a directory, are not redone. Returns when that is on disk.

        Those that are removed are let go: nobody has to sync them before a file is used again.
        OSError when it cannot be written: earlier records may be redone.
        """
        batch = self._add(FORGET, prefix.encode(), 0, 0, ())
        self._forgetting.add(batch.number)
        self.commit()
        cancelled = await batch.done()
        if batch.is_on_disk:
            for of_file in self._logs.values():
                for log in removed:
                    of_file.pop(log, None)
        if cancelled is not None:
            raise cancelled
        if not batch.is_on_disk:
            raise OSError(errno.EIO, "the write-ahead log cannot be written")

    def _add(self, kind: int, log_id: bytes, segment_base: int, position: int, data: Sequence[Buffer]) -> WalBatch:
        record = encode(self._number, kind, log_id, segment_base, position, data)
        if self._position + len(record) > self._file_bytes and self._position > HEADER_BYTES:
            self._begin_file()
            record = encode(self._number, kind, log_id, segment_base, position, data)
        batch = self._batches[-1] if self._batches else None
        if batch is None or batch.number != self._number:
            batch = WalBatch(self._number)
            self._batches.append(batch)
        batch.records.append(record)
        self._position += len(record)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LATEST_SECONDS, self._commit_late)
        return batch

    def _begin_file(self) -> None:
        self._number += 1
        self._position = HEADER_BYTES

    def _commit_late(self) -> None:
        self._timer = None
        self.commit()

    def _write_next(self) -> None:
        if not self._batches:
            self._is_writing = False
            if self._idle is not None and not self._idle.done():
                self._idle.set_result(None)
            return
        batch = self._batches.popleft()
        if batch.number not in self._logs and self._full_files(batch.number):
            self._awaiting_room = asyncio.get_running_loop().create_task(self._write_when_there_is_room(batch))
        else:
            self._begin_write(batch)

    async def _write_when_there_is_room(self, batch: WalBatch) -> None:
        try:
            await self._room_for(batch.number)
        except BaseException as error:  # whatever it is, nobody may wait for ever
            self._end_write(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._begin_write(batch)

    def _begin_write(self, batch: WalBatch) -> None:
        write = partial(self._files.write, batch.number, batch.records)
        try:
            is_written = False
            if len(batch.waiting) <= _FEW and batch.number in self._logs:
                is_written = self._threads.run_at_once(write)
            if not is_written:
                self._threads.begin(write, partial(self._end_write, batch))
        except Exception as error:  # whatever it is, nobody may wait for ever
            self._end_write(batch, error)
        else:
            if is_written:
                self._end_write(batch, None)

    def _end_write(self, batch: WalBatch, error: BaseException | None) -> None:
        if error is None:
            self._logs.setdefault(batch.number, {}).update(batch.logs)
            batch.end(is_on_disk=True)
        else:
            self._fail(batch, error)
        if self._batches:
            asyncio.get_running_loop().call_soon(self._write_next)  # others have their turn between two batches
        else:
            self._write_next()

    def _full_files(self, number: int) -> list[int]:
        """Those below the one that is written next, without those that stay."""
        return [each for each in self._logs if each < number and each not in self._stuck]

    async def _room_for(self, number: int) -> None:
        """Files below the one that is written next are full: their logs are synced, and they are used again."""
        while full := self._full_files(number):
            if self._syncing is None:
                self._syncing = asyncio.get_running_loop().create_task(self._sync_files(full))
            if len(full) <= MAX_FULL_FILES or self._syncing is None:
                return
            await asyncio.wait([self._syncing])

    def _fail(self, batch: WalBatch, error: BaseException) -> None:
        """After a hole nothing would be read, so a new file is begun; what was added meanwhile is lost as well."""
        _logger.warning("the write-ahead log cannot be written (%r); appends sync their own files", error)
        self.failures += 1
        self._logs.setdefault(batch.number, {}).update(batch.logs)
        self._begin_file()
        lost, self._batches = [batch, *self._batches], deque()
        for each in lost:
            each.end(is_on_disk=False)

    async def _sync_files(self, numbers: list[int]) -> None:
        """Syncs the logs that have records in these files, one file after the other, and retires the files."""
        try:
            for number in numbers:
                is_synced = all(await bounded_gather(_flush, list(self._logs[number])))
                if not is_synced or (number in self._forgetting and number > min(self._logs)):
                    self._stuck.add(number)
                    continue
                try:
                    await self._threads.run(self._files.retire, number)
                except OSError as error:
                    _logger.warning("a file of the write-ahead log could not be retired: %s", error)
                    self._stuck.add(number)
                else:
                    del self._logs[number]
                    self._forgetting.discard(number)
        finally:
            self._syncing = None

    async def close(self) -> None:
        """Writes what was added. When every log is synced nothing is left to redo: the files are removed."""
        if self._timer is not None:
            self._timer.cancel()
        self.commit()
        if self._is_writing:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        logs = {log: None for of_file in self._logs.values() for log in of_file}
        is_needed = not all(await bounded_gather(_flush, list(logs)))
        await self._threads.run(self._files.close if is_needed else self._files.remove_all)


async def _flush(log: DirtyLog) -> bool:
    try:
        return await log.flush()
    except Exception:
        _logger.exception("a log could not be synced")
        return False
