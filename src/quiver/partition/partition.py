"""One partition: its log, its writer and the readers that wait."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from quiver.model.errors import (
    MessageTooLarge,
    Overloaded,
    PartitionOffline,
    ShuttingDown,
)
from quiver.model.limits import KIB, MIB, Limits
from quiver.model.message import NewMessage
from quiver.model.names import LeaderEpoch
from quiver.model.times import format_time
from quiver.model.topic import TopicConfig
from quiver.partition.committed_view import CommittedView
from quiver.partition.id_keys import FrameIds
from quiver.partition.message_ids import MessageIds
from quiver.partition.offset_assigner import OffsetAssigner
from quiver.partition.pending import Appended as Appended
from quiver.partition.pending import (
    Assigned,
    MessageBatch,
    Pending,
    PendingFrame,
    PendingMarker,
    answer,
    check_times,
    count_alone,
    message_size,
    refuse,
)
from quiver.partition.pending import Frame as Frame
from quiver.partition.producers import ProducerTable
from quiver.partition.saved_state import SavedState
from quiver.partition.settings import PartitionSettings, log_options
from quiver.partition.tables import PartitionTables
from quiver.partition.transactions import TransactionTable
from quiver.records.header import COLUMN_DELIVER_AT, COLUMN_ID, HEADER_BYTES, SAMPLED, FrameHeader, StampedFrame
from quiver.storage.port import Log
from quiver.storage.writer import Queued, Rest, SerialWriter, append_and_wait
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

_WRITE_BYTES = 16 * MIB
_AT_ONCE_BYTES = 64 * KIB
_IDS_AT_ONCE_BYTES = 16 * KIB
"""Of a frame with message ids, which are read first."""
_TIMES_AHEAD_MS = 60_000
"""If append times are further ahead of the clock than this, there is a warning."""


class Partition:
    """Appends go through one writer; reads run concurrently with it. Belongs to one event loop.

    Its parts: `log` stores frames, `committed` is what readers see, `tables` hold what is known of producers,
    transactions and message ids, `saved_state` keeps the tables over restarts.
    """

    def __init__(
        self, name: str, log: Log, settings: PartitionSettings, *, leader_epoch: LeaderEpoch, clock: Clock
    ) -> None:
        config = settings.config
        self.name = name
        self.log = log
        self.leader_epoch = leader_epoch
        self._config = config
        self._is_schedule = settings.is_schedule
        self._clock = clock
        self._message_batch_bytes = settings.message_batch_bytes
        transactions = TransactionTable()
        committed = self.committed = CommittedView(name, log, transactions, config)
        self.traffic = committed.traffic
        message_ids = MessageIds(
            config.dedup_window_ms,
            settled_below=lambda: committed.high_watermark,
            columns=COLUMN_ID | COLUMN_DELIVER_AT if settings.is_schedule else COLUMN_ID,  # copies have no time
            delayed=settings.is_schedule,
        )
        self.tables = PartitionTables(ProducerTable(), transactions, message_ids)
        self.limits = settings.limits
        self._assigner = OffsetAssigner(
            name, self.tables, self.traffic, leader_epoch=leader_epoch, limits=settings.limits
        )
        self._writer: SerialWriter[Pending] = SerialWriter(self._write, batch_bytes=_WRITE_BYTES)
        self.saved_state = SavedState(name, log, self.tables, self._writer, clock)
        self._open_batches: dict[tuple[int, bool], tuple[MessageBatch, Queued[Pending]]] = {}
        """By priority, and whether their callers wait for this replica only."""
        self._alone_queued = 0
        """Items of such callers."""
        self._closing = False
        self._has_warned = False
        self.on_sampled: Callable[[StampedFrame], None] | None = None
        """Called with each frame that has sampled messages, once it is written."""
        log.notify_readable(self._on_readable)

    async def recover(self) -> None:
        """After opening: brings the tables up to date."""
        await self.saved_state.recover()

    def share_ids_with(self, sibling: "Partition") -> None:
        """A message id counts once in a partition and its schedule log together."""
        ids, others = self.tables.message_ids, sibling.tables.message_ids
        ids.sibling, others.sibling = others, ids

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """For a producer that has nothing in flight."""
        known = self.tables.producers.get(producer_id)
        return known.next_sequence if known is not None and known.epoch == epoch else 0

    def append(
        self, frame: Frame, header: FrameHeader, *, check_ids: bool = True, alone: bool = False
    ) -> "asyncio.Future[Appended]":
        """Queues a checked frame; the future is done when it is as durable as the topic requires, or `alone`: when it
        is so on this replica.

        Messages whose ids are known are left out, unless they only come from another log (`check_ids`).
        """
        size = HEADER_BYTES + header.length
        self._check_writable(size, is_plain=not header.is_transactional)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        ids: FrameIds | None = None
        if header.columns & COLUMN_ID and self.tables.message_ids.counts(header):
            ids = FrameIds(frame, header)
        pending = PendingFrame(frame, header, future, ids, check_ids, alone)
        is_small = size <= (_AT_ONCE_BYTES if ids is None else _IDS_AT_ONCE_BYTES)
        if is_small and self._writer.is_idle:
            self._write_now(pending, sync=True, alone=alone)
        else:
            self._alone_queued += alone
            self._writer.submit(pending, size)
        return future

    def append_marker(self, producer_id: int, epoch: int, *, commit: bool) -> "asyncio.Future[Appended]":
        """Queues the end of a transaction; nothing is written (offset -1) if it is no longer open.

        The future is done when it is written, before it is on disk: `log.sync` syncs it.
        """
        self._check_writable(0, is_plain=False)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        pending = PendingMarker(producer_id, epoch, commit, future)
        if self._writer.is_idle:
            self._write_now(pending, sync=False)
        else:
            self._writer.submit(pending, 0)
        return future

    def append_message(self, message: NewMessage) -> "asyncio.Future[Appended]":
        """Queues one message, in a frame that it shares with others that wait; the future returns its offset, or
        that of the first message with its id."""
        size = message_size(message)
        if size > self._assigner.limits.message_bytes:
            raise MessageTooLarge(size=size, limit=self._assigner.limits.message_bytes)
        check_times(message)
        self._check_writable(size)
        future: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        alone = message.acks == "leader"
        place = message.priority, alone
        batch, queued = self._open_batches.get(place, (None, None))
        if batch is None or queued is None or not batch.has_room(size):
            most = min(self._message_batch_bytes, self._assigner.limits.frame_bytes // 2)
            batch = MessageBatch(message.priority, most, alone=alone)
            self._alone_queued += alone
            self._open_batches[place] = batch, self._writer.submit(batch, size)
        else:
            self._writer.enlarge(queued, size)
        batch.add(message, size, future)
        return future

    def passed(self, relay: int, sequence: int) -> int:
        """How many messages from a sequence on a relay has appended already."""
        return self.tables.producers.passed(relay, sequence)

    @property
    def waiting_bytes(self) -> int:
        """What was accepted and is not written yet."""
        return self._writer.queued_bytes

    @property
    def ttl_ms(self) -> int | None:
        """The topic's time to live, for messages that have none of their own."""
        return self._config.ttl_ms

    def reconfigure(self, config: TopicConfig, limits: Limits) -> None:
        self._config, self.limits, self._assigner.limits = config, limits, limits
        self.committed.configure(config)
        self.tables.message_ids.configure(config.dedup_window_ms)
        self.log.configure(log_options(config, is_schedule=self._is_schedule))

    async def retain(self, config: TopicConfig) -> None:
        """Applies the topic's retention. An old active segment is closed even without retention."""
        deletes = "delete" in config.cleanup
        self._warn_of_times_ahead()

        async def drop() -> None:
            offset = await self.log.retention_offset(
                now_ms=self._clock.now_ms(),
                retention_ms=config.retention_ms if deletes else None,
                retention_bytes=config.retention_bytes if deletes else None,
            )
            if offset > self.log.start_offset:
                await self.saved_state.save_below(offset)
                before = self.log.size_bytes
                await self.log.drop_front(offset)
                self.traffic.retained_out_bytes += max(0, before - self.log.size_bytes)
            self.tables.message_ids.expire(self.saved_state.now_ms())

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
        """Once, until the clock has caught up."""
        problem = self.times_ahead
        if problem is not None and not self._has_warned:
            logger.warning("%s: %s", self.name, problem)
        self._has_warned = problem is not None

    async def drop_front(self, offset: int) -> None:
        """Removes messages below an offset, as far as they fill whole segments."""

        async def drop() -> None:
            await self.saved_state.save_below(offset)
            await self.log.drop_front(offset)

        await self._writer.exclusive(drop)

    async def purge(self) -> None:
        """Removes every message; offsets continue."""

        async def empty() -> None:
            await self.saved_state.save_below(self.log.end_offset)
            await self.log.roll()
            await self.log.drop_front(self.log.end_offset)

        await self._writer.exclusive(empty)

    async def drop_below(self, offset: int) -> None:
        """Frees the space of messages that are no longer needed: whole segments below an offset.

        The producers are saved first: a move whose frame is gone must still be recognised.
        """

        async def drop() -> None:
            await self.saved_state.save_below(offset)
            if offset >= self.log.end_offset:
                await self.log.roll()
            await self.log.drop_front(offset)

        await self._writer.exclusive(drop)

    async def close(self) -> None:
        """Finishes what was accepted, then closes the log."""
        self._closing = True
        await self._writer.drain()
        await self.saved_state.save()
        self.committed.wake_watchers()
        await self.log.close()

    def abandon(self) -> None:
        """Refuses further work, for a partition that is about to be deleted."""
        self._closing = True
        self.committed.wake_watchers()

    async def drain(self) -> None:
        await self._writer.drain()

    async def end(self) -> None:
        """Called after `abandon`: returns when nothing is running any more."""
        await self._writer.drain()
        await self.saved_state.finish()
        self._writer.let_go()
        self.tables.message_ids.let_go()

    def _check_writable(self, size: int, *, is_plain: bool = True) -> None:
        """`is_plain`: it is in no transaction, so it may be buffered during an outage."""
        if self._closing:
            raise ShuttingDown()
        if self.log.failure is not None:
            raise PartitionOffline(partition=self.name, problem=self.log.failure)
        outage = self.log.outage
        if outage is not None and not (is_plain and self.log.has_buffer):
            raise outage
        waiting = self._writer.queued_bytes
        if waiting and waiting + size > self._assigner.limits.partition_queue_bytes:
            raise Overloaded(problem=f"{waiting} bytes wait for {self.name}")

    def _write_now(self, pending: PendingFrame | PendingMarker, *, sync: bool, alone: bool = False) -> None:
        """Writes a small frame by itself, while the writer is idle; what comes before it is on disk queues."""
        writer, log = self._writer, self.log
        assigned = self._assigner.assigned(pending, self.saved_state.now_ms(), log.end_offset)
        assigned.alone = alone
        writer.hold(writer.append(log, assigned.frames, partial(self._end_append, assigned), sync=sync, alone=alone))

    def _write(self, batch: list[Pending]) -> Rest | bool:
        has_ids = False
        for pending in batch:
            if isinstance(pending, MessageBatch):
                pending.sealed = True
                place = pending.priority, pending.alone
                if self._open_batches.get(place, (None, None))[0] is pending:
                    del self._open_batches[place]
            elif isinstance(pending, PendingFrame) and pending.ids is not None:
                has_ids = True
        alone_count = count_alone(batch) if self._alone_queued else 0
        self._alone_queued -= alone_count
        alone = alone_count == len(batch)
        if has_ids:
            return partial(self._prepare_and_append, batch, alone)
        assigned = self._assigned(batch)
        assigned.alone = alone
        sync = not all(stamped.header.is_control for stamped in assigned.frames)
        on_end = partial(self._end_append, assigned)
        return self._writer.append(self.log, assigned.frames, on_end, sync=sync, alone=alone)

    async def _prepare_and_append(self, batch: list[Pending], alone: bool) -> None:
        assigned = self._assigned([pending for pending in batch if await self._prepared(pending)])
        assigned.alone = alone
        await append_and_wait(self.log, assigned.frames, partial(self._end_append, assigned), alone=alone)

    def _assigned(self, batch: list[Pending]) -> Assigned:
        assigned = Assigned(self.log.end_offset)
        now_ms = self.saved_state.now_ms()
        for pending in batch:
            self._assigner.assign(pending, now_ms, assigned)
        return assigned

    def _end_append(self, assigned: Assigned, error: Exception | None) -> None:
        if error is None:
            self._finish(assigned)
        else:
            self._fail(error, assigned)

    async def _prepared(self, pending: Pending) -> bool:
        """Does slow work before offsets are assigned; False: the item is refused."""
        if not isinstance(pending, PendingFrame) or pending.ids is None:
            return True
        try:
            await pending.ids.prepare()
        except Exception as error:
            refuse(pending, self._assigner.as_refusal(error), self.traffic)
            return False
        return True

    def _finish(self, assigned: Assigned) -> None:
        """The frames are written: readers see them from now on. There is no await, so nobody sees half of this."""
        is_ahead = False
        if assigned.alone:
            self.traffic.acked_by_leader_frames += len(assigned.frames)
            is_ahead = self.log.readable_offset < assigned.next_offset
        self.committed.advance(assigned.frames, is_ahead=is_ahead)
        is_buffering = self.log.is_buffering
        for pending, appended in assigned.outcomes:
            if is_buffering and appended.base_offset >= self.log.readable_offset:
                appended = appended._replace(buffered=True)
            if appended.duplicate or appended.duplicates:
                self._note_duplicates(pending, appended)
            answer(pending, appended)
        if assigned.id_changes:
            self.tables.message_ids.written()
        if assigned.frames:
            self.committed.wake_watchers()
            self.saved_state.note_written(assigned.frames)
            for stamped in assigned.frames:
                if stamped.header.attributes & SAMPLED and self.on_sampled is not None:
                    self.on_sampled(stamped)

    def _on_readable(self) -> None:
        """What was in the local buffer is stored."""
        self.committed.advance_to_readable()
        self.committed.wake_watchers()

    def _note_duplicates(self, pending: Pending, appended: Appended) -> None:
        if appended.duplicates:
            self.saved_state.note_left_out()
            self.traffic.duplicates += len(appended.duplicates)
        elif isinstance(pending, PendingFrame):
            self.traffic.duplicates += pending.header.record_count
        elif not isinstance(pending, PendingMarker):
            self.traffic.duplicates += 1

    def _fail(self, error: Exception, assigned: Assigned) -> None:
        """The log could not write the frames."""
        refusal = self._assigner.as_refusal(error)
        self.tables.undo(assigned)
        for pending, _ in assigned.outcomes:
            refuse(pending, refusal, self.traffic)
