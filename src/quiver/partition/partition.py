"""One partition: its log, its writer and those who wait for news."""

import asyncio
import contextlib
import logging
from collections.abc import Callable

from quiver.model.errors import (
    CorruptData,
    MessageTooLarge,
    Overloaded,
    PartitionOffline,
    ShuttingDown,
)
from quiver.model.limits import KIB, MIB, Limits
from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.times import format_time
from quiver.model.topic import TopicConfig
from quiver.partition.id_keys import FrameIds
from quiver.partition.message_batch import BATCH_BYTES, MessageBatch, check_times, message_size
from quiver.partition.outcome import Appended as Appended
from quiver.partition.pending import Assigned, Pending, PendingFrame, PendingMarker, answer, refuse
from quiver.partition.pending import Frame as Frame
from quiver.partition.saved_state import SavedState
from quiver.records.header import FrameHeader
from quiver.storage.port import FrameSlice, Log, LogOptions
from quiver.storage.writer import Queued, SerialWriter
from quiver.structures.ordered_set import OrderedSet
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

_WRITE_BYTES = 16 * MIB
_AT_ONCE_BYTES = 16 * KIB
_UNSAVED_AT_CLOSE_BYTES = 32 * KIB
"""A start reads this much of a log about as fast as a snapshot."""
_TIMES_AHEAD_MS = 60_000
"""Append times that are ahead of the clock by more than this are worth a warning."""


def log_options(config: TopicConfig) -> LogOptions:
    return LogOptions(
        durability=config.durability, segment_bytes=config.segment_bytes, roll_after_ms=config.roll_after_ms
    )


class Partition(SavedState):
    """Appends go through one writer; reads run beside it. Belongs to one event loop."""

    def __init__(
        self,
        name: str,
        log: Log,
        *,
        config: TopicConfig,
        epoch: int,
        clock: Clock,
        limits: Limits,
        message_batch_bytes: int = BATCH_BYTES,
        is_schedule: bool = False,
    ) -> None:
        super().__init__(name, log, config, epoch=epoch, clock=clock, limits=limits, is_schedule=is_schedule)
        self.newest = [self.high_watermark] * len(Priority)
        """By priority, the offset behind the last frame of it that was appended since opening: a level that was read
        up to there has nothing new below `high_watermark`. Both are raised in one step, by the writer task."""
        self._knows_newest = False
        self._message_batch_bytes = message_batch_bytes
        self._writer = SerialWriter(self._write, batch_bytes=_WRITE_BYTES)
        self._open_batches: dict[int, tuple[MessageBatch, Queued[Pending]]] = {}
        self._watchers: OrderedSet[Callable[[], None]] = OrderedSet()
        self._closing = False
        self._has_warned = False
        self.aborted_gone_below = 0
        """The last compaction left no data of aborted transactions below."""

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Of a producer that has nothing under way."""
        known = self._producers.get(producer_id)
        return known.next_sequence if known is not None and known.epoch == epoch else 0

    def append(self, frame: Frame, header: FrameHeader, *, check_ids: bool = True) -> "asyncio.Future[Appended]":
        """Queues a checked frame; the future answers when it is as durable as the topic asks for.

        Messages whose ids are known are left out, unless they only come from another log (`check_ids`).
        """
        self._check_writable(header.frame_bytes)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        ids = FrameIds(frame, header) if self.message_ids.counts(header) else None
        pending = PendingFrame(frame, header, future, ids, check_ids)
        if not self._write_at_once(pending):
            self._writer.submit(pending, header.frame_bytes)
        return future

    def append_marker(self, producer_id: int, epoch: int, *, commit: bool) -> "asyncio.Future[Appended]":
        """Queues the end of a transaction; nothing is written (offset -1) where it is not open any more.

        The future answers when it is written, and not only when it is on disk: `log.sync` brings it there.
        """
        self._check_writable(0)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        pending = PendingMarker(producer_id, epoch, commit, future)
        if not self._write_at_once(pending):
            self._writer.submit(pending, 0)
        return future

    def append_message(self, message: NewMessage) -> "asyncio.Future[Appended]":
        """Queues one message, in a frame that it shares with others that wait; the future answers its offset, or
        that of the first message with its id."""
        size = message_size(message)
        if size > self._limits.message_bytes:
            raise MessageTooLarge(size=size, limit=self._limits.message_bytes)
        check_times(message)
        self._check_writable(size)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        batch, queued = self._open_batches.get(message.priority, (None, None))
        if batch is None or queued is None or not batch.has_room(size):
            most = min(self._message_batch_bytes, self._limits.frame_bytes // 2)
            batch = MessageBatch(message.priority, most)
            self._open_batches[message.priority] = batch, self._writer.submit(batch, size)
        else:
            self._writer.enlarge(queued, size)
        batch.add(message, size, future)
        return future

    def passed(self, relay: int, sequence: int) -> int:
        """How many messages from a sequence on a relay has brought already."""
        return self._producers.passed(relay, sequence)

    async def find_newest(self) -> None:
        """Once after opening: a level that has nothing stored has nothing new either."""
        if self._knows_newest:
            return
        start, known = self.log.start_offset, list(self.newest)
        self._knows_newest = True
        with contextlib.suppress(CorruptData):
            for level, count in enumerate(await self.log.count_by_priority(start)):
                if not count and self.newest[level] == known[level]:
                    self.newest[level] = start

    async def read(self, offset: int, max_bytes: int, *, end_offset: int | None = None) -> FrameSlice | None:
        return await self.log.read(offset, max_bytes=max_bytes, end_offset=end_offset)

    def watch(self, wake: Callable[[], None]) -> None:
        """Calls `wake` whenever there is more to read, until unwatch."""
        self._watchers.add(wake)

    def unwatch(self, wake: Callable[[], None]) -> None:
        self._watchers.discard(wake)

    @property
    def ttl_ms(self) -> int | None:
        """The topic's time to live, for messages that have none of their own."""
        return self._config.ttl_ms

    def reconfigure(self, config: TopicConfig, limits: Limits) -> None:
        self._config, self._limits = config, limits
        self.message_ids.configure(config.dedup_window_ms)
        self.log.configure(log_options(config))

    async def retain(self, config: TopicConfig) -> None:
        """Applies the topic's retention. Without one, an old active segment is closed all the same."""
        deletes = "delete" in config.cleanup
        self._warn_of_times_ahead()

        async def drop() -> None:
            offset = await self.log.retention_offset(
                now_ms=self._clock.now_ms(),
                retention_ms=config.retention_ms if deletes else None,
                retention_bytes=config.retention_bytes if deletes else None,
            )
            if offset > self.log.start_offset:
                await self._save_below(offset)
                await self.log.drop_front(offset)
            self.message_ids.expire(self._now_ms())

        await self._writer.exclusive(drop)

    @property
    def times_ahead(self) -> str | None:
        """What is wrong with its append times, if they are ahead of the clock."""
        last_ms = self.log.last_append_time_ms
        if last_ms - self._clock.now_ms() <= _TIMES_AHEAD_MS:
            return None
        return (
            f"it was written with a clock that was ahead: append times stay at {format_time(last_ms)} until the clock"
            " has come so far, and retention goes by when the files were written"
        )

    def _warn_of_times_ahead(self) -> None:
        """Once, until the clock has come so far."""
        problem = self.times_ahead
        if problem is not None and not self._has_warned:
            logger.warning("%s: %s", self.name, problem)
        self._has_warned = problem is not None

    async def drop_front(self, offset: int) -> None:
        """Removes messages below an offset, as far as they fill whole segments."""

        async def drop() -> None:
            await self._save_below(offset)
            await self.log.drop_front(offset)

        await self._writer.exclusive(drop)

    async def purge(self) -> None:
        """Removes every message; the offsets go on where they were."""

        async def empty() -> None:
            await self._save_below(self.log.end_offset)
            await self.log.roll()
            await self.log.drop_front(self.log.end_offset)

        await self._writer.exclusive(empty)

    async def drop_below(self, offset: int) -> None:
        """Frees the room of messages that nobody wants any more, as far as whole segments are below an offset.

        The producers are saved first: a move whose frame is gone must still be known.
        """

        async def drop() -> None:
            await self._save_below(offset)
            if offset >= self.log.end_offset:
                await self.log.roll()
            await self.log.drop_front(offset)

        await self._writer.exclusive(drop)

    async def close(self) -> None:
        """Finishes what was accepted, then closes the log."""
        self._closing = True
        await self._writer.drain()
        tells_all = not self._has_left_out and not len(self.message_ids)
        await self.snapshot(beyond_bytes=_UNSAVED_AT_CLOSE_BYTES if tells_all else 0)
        self._wake_watchers()
        await self.log.close()

    def abandon(self) -> None:
        """Refuses further work, for a partition that is about to be deleted."""
        self._closing = True
        self._wake_watchers()

    async def drain(self) -> None:
        await self._writer.drain()

    async def end(self) -> None:
        """Comes after `abandon`: returns when nothing is under way any more."""
        await self._writer.drain()
        if self._snapshot_task is not None:
            await self._snapshot_task
        self._writer.let_go()
        self.message_ids.let_go()

    def _check_writable(self, size: int) -> None:
        if self._closing:
            raise ShuttingDown()
        if self.log.failure is not None:
            raise PartitionOffline(partition=self.name, problem=self.log.failure)
        waiting = self._writer.queued_bytes
        if waiting and waiting + size > self._limits.partition_queue_bytes:
            raise Overloaded(problem=f"{waiting} bytes wait for {self.name}")

    def _wake_watchers(self) -> None:
        for wake in list(self._watchers):
            try:
                wake()
            except Exception:
                logger.exception("somebody who waits for news of %s was not told", self.name)

    def _write_at_once(self, pending: PendingFrame | PendingMarker) -> bool:
        """Writes a small frame here and now where nothing needs to be waited for; False when it must queue."""
        sync = isinstance(pending, PendingFrame)
        if isinstance(pending, PendingFrame) and (
            pending.header.frame_bytes > _AT_ONCE_BYTES or self._config.durability == "fsync"
        ):
            return False
        if not self._writer.is_idle:
            return False
        assigned = Assigned(self.log.end_offset)
        self._assign(pending, self._now_ms(), assigned)
        try:
            if assigned.frames and not self.log.append_at_once(assigned.frames, sync=sync):
                self._undo(assigned)
                return False
        except Exception as error:
            self._fail(error, assigned)
            return True
        self._finish(assigned)
        return True

    async def _write(self, batch: list[Pending]) -> None:
        for pending in batch:
            if isinstance(pending, MessageBatch):
                pending.sealed = True
                if self._open_batches.get(pending.priority, (None, None))[0] is pending:
                    del self._open_batches[pending.priority]
        batch = [pending for pending in batch if await self._prepared(pending)]
        assigned = Assigned(self.log.end_offset)
        now_ms = self._now_ms()
        for pending in batch:
            self._assign(pending, now_ms, assigned)
        try:
            if assigned.frames:
                sync = not all(stamped.header.is_control for stamped in assigned.frames)
                await self.log.append(assigned.frames, sync=sync)
        except Exception as error:
            self._fail(error, assigned)
        else:
            self._finish(assigned)

    async def _prepared(self, pending: Pending) -> bool:
        """What takes long is done before anything is assigned; False: the item is refused."""
        if not isinstance(pending, PendingFrame) or pending.ids is None:
            return True
        try:
            await pending.ids.prepare()
        except Exception as error:
            refuse(pending, self._as_refusal(error))
            return False
        return True

    def _finish(self, assigned: Assigned) -> None:
        """The frames are written: from here on readers see them. No await: nobody sees a part of this."""
        for header, _, _ in assigned.frames:
            self.newest[header.priority] = header.next_offset
        self.high_watermark = self.log.readable_offset
        for pending, appended in assigned.outcomes:
            if appended.duplicates:
                self._has_left_out = True
            answer(pending, appended)
        if assigned.id_changes:
            self.message_ids.written()
        if assigned.frames:
            self._wake_watchers()
            self._snapshot_if_due(assigned.frames)

    def _fail(self, error: Exception, assigned: Assigned) -> None:
        """The log did not take what was assigned."""
        refusal = self._as_refusal(error)
        self._undo(assigned)
        for pending, _ in assigned.outcomes:
            refuse(pending, refusal)
