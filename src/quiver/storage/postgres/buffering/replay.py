"""Stores what is in the local buffer: when the database is back, and at a start."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from quiver.model.errors import InvalidSetting, QuiverError, StaleEpoch, StorageUnavailable
from quiver.model.names import StartEpoch
from quiver.records.header import HEADER_BYTES, NO_PRODUCER, FrameHeader, StampedFrame, stamp, unpack_header
from quiver.records.read import split_frames
from quiver.storage.port import LogOptions
from quiver.storage.postgres.appending.pending import PendingAppend, append_query
from quiver.storage.postgres.appending.recovery import AppendRecovery, segment_limits
from quiver.storage.postgres.appending.state import PlannedAppend, PostgresLogState
from quiver.storage.postgres.buffering.buffer_file import BufferedAppend
from quiver.storage.postgres.buffering.publish_buffer import PublishBuffer
from quiver.storage.postgres.database.database import Database
from quiver.storage.postgres.database.statements import sql

logger = logging.getLogger(__name__)

_Sent = tuple[int, int, int]
"""Producer, epoch and sequence of a frame."""


class _Target(NamedTuple):
    """A log that gets frames."""

    stored: PostgresLogState
    """As it is in the database."""
    state: PostgresLogState | None
    """As this process has it; None at a start, before the log is opened."""
    position: int
    """What lies below in the file was stored by an earlier attempt."""
    first_end: int
    """Where the database ended when the replay began."""


class BufferReplay:
    """`state_of` gives the state of an open log, and None at a start; `adopt` is called for each when all is stored,
    with its state in the database."""

    def __init__(
        self,
        database: Database,
        recovery: AppendRecovery,
        buffer: PublishBuffer,
        *,
        state_of: Callable[[str], PostgresLogState | None],
        adopt: Callable[[str, PostgresLogState], None],
    ) -> None:
        self._database = database
        self._recovery = recovery
        self._buffer = buffer
        self._state_of = state_of
        self._adopt = adopt
        self._targets: dict[str, _Target | None] = {}
        self._taken_over: dict[str, set[_Sent]] = {}
        """Logs that another broker has written to, with what it has stored of producers."""
        self._position = 0
        self.owner = StartEpoch(0)
        """The start that opens logs at a start."""
        self._left: set[str] = set()
        """Logs whose part of the file cannot be stored by this process."""

    @property
    def problem(self) -> str | None:
        if not self._left:
            return None
        return f"{self._buffer.path} has messages of {', '.join(sorted(self._left)[:3])} that wait for the next start"

    async def at_start(self, installation: str, stored: Callable[[], Awaitable[None]]) -> None:
        """Before any log is opened. Raises InvalidSetting for a buffer of another database.

        `stored` is awaited when everything is in the database, before the file is removed.
        """
        header = self._buffer.header
        if header is None:
            return
        if header.installation != installation:
            raise InvalidSetting(
                setting="buffer_dir",
                problem=f"{self._buffer.path} has messages for another database or schema (it was written for "
                f"{header.installation}, this is {installation}); start a broker on that one, or move the file away",
            )
        logger.warning("storing %d bytes from %s", self._buffer.size_bytes, self._buffer.path)
        await self._pass()
        await stored()
        await self._finish()

    async def run(self) -> list[PendingAppend]:
        """The database is back. Returns appends that came at the end, which are for the database.

        Raises an error when it is gone again; then it is called again.
        """
        if self._buffer.header is None and not self._buffer.is_busy:
            return self._buffer.release()
        self._targets.clear()
        try:
            await self._pass()
            self._buffer.hold()
            await self._pass()
            await self._finish()
        except BaseException:
            self._buffer.resume()
            raise
        for log_id, target in self._targets.items():
            if target is not None:
                self._adopt(log_id, target.stored)
        self._targets.clear()
        return self._buffer.release()

    async def _pass(self) -> None:
        """Up to the end of the file, and until nothing is being written to it."""
        while self._position < self._buffer.end_position or self._buffer.is_busy:
            appends = await self._buffer.read(self._position)
            if appends:
                await self._store(appends)
                self._position = appends[-1].end_position

    async def _finish(self) -> None:
        header = self._buffer.header
        if header is None or self._left:
            return
        await self._buffer.remove()
        self._position = 0
        try:
            await self._database.fetch("forget_buffer", header.id, while_away=True)
        except QuiverError as error:  # the rows of a buffer that is gone say nothing any more
            logger.info("the progress of the local buffer was not removed: %s", error)
        logger.warning("everything in the local buffer is stored")

    async def _store(self, appends: Sequence[BufferedAppend]) -> None:
        by_log: dict[str, list[BufferedAppend]] = {}
        for append in appends:
            by_log.setdefault(append.log_id, []).append(append)
        bundle: list[tuple[PendingAppend, int]] = []
        for log_id, of_log in by_log.items():
            target, frames = await self._prepared(log_id, of_log)
            if target is not None and frames:
                planned = PlannedAppend(target.stored, frames)
                planned.reserved_offset = max(planned.reserved_offset, planned.plan.end_offset)
                bundle.append((PendingAppend(target.stored, planned, _ignore), of_log[-1].end_position))
        if bundle:
            await self._commit(bundle)

    async def _prepared(
        self, log_id: str, appends: Sequence[BufferedAppend]
    ) -> tuple[_Target | None, list[StampedFrame]]:
        try:
            if log_id not in self._targets:
                self._targets[log_id] = await self._begin(log_id)
            target = self._targets[log_id]
            return target, [] if target is None else await self._frames(target, appends)
        except StorageUnavailable:
            raise
        except QuiverError as error:
            logger.error("%s: its messages in the local buffer are kept there: %s", log_id, error)
            self._left.add(log_id)
            self._targets[log_id] = None
            return None, []

    async def _begin(self, log_id: str) -> _Target | None:
        header, state = self._buffer.header, self._state_of(log_id)
        assert header is not None
        if state is None:
            stored = PostgresLogState(log_id, self.owner, segment_limits(LogOptions()))
            if await self._database.fetch_row("log_named", log_id, while_away=True) is None:
                logger.warning("%s: it was deleted, and its messages in the local buffer with it", log_id)
                return None
            await self._recovery.open(stored)
        else:
            stored = PostgresLogState(log_id, state.owner, state.limits)
            row = await self._recovery.take_again(state)
            state.owner_epoch = row["owner_epoch"]
            await self._recovery.load(stored, row, while_away=True)
        end = stored.end_offset = stored.frames_end
        noted = await self._database.fetch_row("buffer_position", header.id, stored.id, while_away=True)
        target = _Target(stored, state, 0 if noted is None else noted[0], end)
        if state is not None and noted is None:
            await self._restore_lost(target, state)
        return target

    async def _restore_lost(self, target: _Target, state: PostgresLogState) -> None:
        """Commits that were not waited for, and that the database has lost, come before what is buffered."""
        stored = target.stored
        expected = state.buffered_from
        lost = state.unsynced_from(stored.frames_end)
        if lost:
            planned = PlannedAppend(stored, lost)
            planned.reserved_offset = max(planned.reserved_offset, planned.plan.end_offset)
            await self._commit([(PendingAppend(stored, planned, _ignore), 0)])
        elif expected is not None and stored.frames_end < expected.frames_end:
            raise self._recovery.behind(state, stored.frames_end)

    async def _frames(self, target: _Target, appends: Sequence[BufferedAppend]) -> list[StampedFrame]:
        """Those that are not stored yet, with the offsets that they get."""
        found: list[StampedFrame] = []
        for append in appends:
            if append.end_position <= target.position:
                continue
            frames = [_frame(append.frames, position, header) for position, header in split_frames(append.frames)]
            if frames[-1].header.next_offset <= target.first_end and await self._is_stored(target, frames[-1]):
                continue
            if frames[0].header.base_offset < target.stored.frames_end:
                await self._note_taken_over(target, frames[0].header.base_offset)
            found += frames
        if (sent := self._taken_over.get(target.stored.log_id)) is not None:
            return _after(target.stored, [frame for frame in found if _sent(frame.header) not in sent])
        return found

    async def _is_stored(self, target: _Target, frame: StampedFrame) -> bool:
        """Whether it was in flight when the database went away, and arrived."""
        row = await self._database.fetch_row(
            "header_at", target.stored.id, frame.header.next_offset, frame.header.base_offset, while_away=True
        )
        return row is not None and row["header"] == bytes(frame.header_bytes)

    async def _note_taken_over(self, target: _Target, offset: int) -> None:
        """Another broker has written where the buffered frames were to be."""
        stored = target.stored
        if target.state is not None:
            raise self._recovery.behind(target.state, stored.frames_end)
        if stored.log_id not in self._taken_over:
            logger.warning("%s: another broker has used it, so buffered messages get other offsets", stored.log_id)
            rows = await self._database.fetch("headers_from", stored.id, offset, while_away=True)
            sent = (_sent(unpack_header(row["header"])) for row in rows)
            self._taken_over[stored.log_id] = {each for each in sent if each is not None}

    async def _commit(self, bundle: Sequence[tuple[PendingAppend, int]]) -> None:
        """Frames and progress in one transaction."""
        header = self._buffer.header
        assert header is not None
        appends = [pending for pending, _ in bundle]
        async with self._database.connection(while_away=True) as connection, connection.transaction():
            name, values = append_query(appends)
            rows = await connection.fetch(sql(name), *values)
            if len(rows) < len(appends):
                raise StaleEpoch(epoch=appends[0].state.owner_epoch, current="that of another broker")
            ids, positions = [pending.state.id for pending in appends], [position for _, position in bundle]
            await connection.execute(sql("note_buffer_progress"), header.id, ids, positions)
        for pending in appends:
            pending.state.apply(pending.append)


def _frame(data: memoryview, position: int, header: FrameHeader) -> StampedFrame:
    body = position + HEADER_BYTES
    return StampedFrame(header, data[position:body], data[body : position + header.frame_bytes])


def _sent(header: FrameHeader) -> _Sent | None:
    if header.producer_id == NO_PRODUCER:
        return None
    return header.producer_id, header.producer_epoch, header.base_sequence


def _after(stored: PostgresLogState, frames: Sequence[StampedFrame]) -> list[StampedFrame]:
    """The frames with offsets after everything that is stored."""
    placed: list[StampedFrame] = []
    offset = stored.frames_end
    for header, header_bytes, body in frames:
        frame = stamp(
            b"".join((header_bytes, body)),
            header,
            base_offset=offset,
            leader_epoch=max(stored.last_epoch, header.leader_epoch),
            append_time_ms=max(stored.last_append_time_ms, header.append_time_ms),
        )
        placed.append(frame)
        offset = frame.header.next_offset
    return placed


def _ignore(append: PlannedAppend | None, error: Exception | None) -> None:
    """Nobody waits for it: its callers have their results."""
