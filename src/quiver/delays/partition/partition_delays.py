"""The delayed messages of one partition: a schedule log, a timers journal, and the state between them.

A message is written to the schedule log and waits. When it is due, the journal records that it leaves; then it is
appended to the partition; then the journal records that this is done. A message that is cancelled needs only a record
in the journal.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from quiver.delays.due_clock import DueClock
from quiver.delays.events import CODEC, Cancelled, Purged, Rescheduled, packed
from quiver.delays.partition.due_moves import Departure, DueMoves, departure
from quiver.delays.partition.intake import Intake
from quiver.delays.partition.log_rewrite import COPIED_AT_ONCE, COPIED_BYTES, copy_rows, is_relocation_due
from quiver.delays.partition.read_ahead import MemoryShare, ReadAhead
from quiver.delays.partition.schedule_log import FRAME_BYTES, read_rows, scan
from quiver.delays.pending import Delayed
from quiver.delays.state import DelayState
from quiver.model.errors import InvalidRequest, QuiverError
from quiver.model.limits import KIB, LONGEST_DELAY_MS, MIB, Limits
from quiver.model.names import TopicPartition
from quiver.model.schedule import DelayedStatus
from quiver.model.times import format_time
from quiver.model.topic import TopicConfig
from quiver.outbox.outbox import Target
from quiver.outbox.relay import OutboxRelay
from quiver.partition.partition import Partition
from quiver.partition.settings import PartitionSettings, log_options
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Log, Storage
from quiver.system.backoff import Backoff
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

SCHEDULE_SUFFIX = "-schedule"
_SEGMENT_BYTES = 16 * MIB
_TAKEN_AT_ONCE = 500
_READ_BYTES = 8 * MIB
_SNAPSHOT_MESSAGES = 100_000
_UNSAVED_AT_CLOSE = 100
_REPLAY_AT_CLOSE_BYTES = 32 * KIB
"""A start reads this much about as fast as it reads a snapshot."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 10.0


class DelayContext(NamedTuple):
    """What the delays of all partitions share."""

    clock: Clock
    due_clock: DueClock
    share: MemoryShare


def schedule_log_id(place: TopicPartition) -> str:
    return f"topics/{place.topic_id}/{place.partition}{SCHEDULE_SUFFIX}"


def timers_log_id(place: TopicPartition) -> str:
    return f"topics/{place.topic_id}/{place.partition}-timers"


def schedule_config(config: TopicConfig) -> TopicConfig:
    """The settings of a topic's schedule logs: as durable as the topic, but without its retention."""
    segment_bytes = min(config.segment_bytes, _SEGMENT_BYTES)
    return msgspec.structs.replace(config, retention_ms=None, retention_bytes=None, segment_bytes=segment_bytes)


def schedule_settings(config: TopicConfig, limits: Limits) -> PartitionSettings:
    return PartitionSettings(schedule_config(config), limits, message_batch_bytes=FRAME_BYTES, is_schedule=True)


class PartitionDelays:
    """Belongs to one event loop. The due clock is told when `next_time_ms` becomes earlier."""

    def __init__(self, place: TopicPartition, target: Partition, schedule: Partition, context: DelayContext) -> None:
        clock, due_clock, share = context
        self.place = place
        self.schedule = schedule
        self.state = DelayState(clock.now_ms())
        self.intake = Intake(place, schedule, self.state, clock=clock, due_clock=due_clock)
        self._journaled = JournaledState(timers_log_id(place), self.state, CODEC, clock=clock, changes_first=True)
        self.moves = DueMoves(place, target, schedule.log, self._journaled, clock=clock, due_clock=due_clock)
        self.relay = OutboxRelay(f"the delays of {target.name}", self.state.outbox, self.moves)
        self._ahead = ReadAhead(schedule.log, self.state.pending, share)
        self._target = target
        self._clock = clock
        self._due_clock = due_clock
        self._turn = asyncio.Lock()
        """Held to begin moves, to copy messages or to take a snapshot."""
        self._cancelling = 0
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS)
        self._paused_until = 0.0
        self._changes_at_snapshot = 0
        self._closing = False

    @classmethod
    async def open(
        cls,
        storage: Storage,
        place: TopicPartition,
        target: Partition,
        settings: PartitionSettings,
        context: DelayContext,
    ) -> "PartitionDelays":
        """Opens both logs and brings the state up to date; open moves are continued."""
        log = await storage.open_log(schedule_log_id(place), log_options(settings.config, is_schedule=True))
        schedule = Partition(
            f"the schedule of {target.name}",
            log,
            settings,
            leader_epoch=target.leader_epoch,
            clock=context.clock,
        )
        await schedule.recover()
        schedule.share_ids_with(target)
        delays = cls(place, target, schedule, context)
        await delays._recover(storage)
        return delays

    async def _recover(self, storage: Storage) -> None:
        state, log = self.state, self.schedule.log
        await self._journaled.open(storage, self.schedule.leader_epoch)
        self._changes_at_snapshot = state.restored_changes
        async for frame in scan(log, state.known_below):
            self.intake.add(frame)
        waits_from = self.intake.waits_from()
        state.seen_up_to(log.end_offset if waits_from is None else waits_from)
        if lost := state.lose_below(log.start_offset):
            logger.warning("%d messages of %s are lost with its log", lost, self.schedule.name)
        self.relay.submit(state.outbox.open.values())

    # leaving

    def next_time_ms(self) -> int | None:
        """When to call `deliver_due`; None if there is nothing to wait for, or if a delivery is running."""
        due_ms, now_ms = self.state.pending.next_ms(), self._clock.now_ms()
        if due_ms is None or self._is_full:
            return None
        ahead_ms = self._ahead.next_ms(now_ms)
        next_ms = due_ms if ahead_ms is None else min(due_ms, ahead_ms)
        rest = self._paused_until - self._clock.monotonic()
        return next_ms if rest <= 0 else max(next_ms, now_ms + round(rest * 1000))

    async def deliver_due(self) -> None:
        """Delivers what is due."""
        async with self._turn:
            is_more = True
            while is_more and not self._closing and not self._is_full:
                self._ahead.fill(self._clock.now_ms())
                taken = self.state.take_due(self._clock.now_ms(), _TAKEN_AT_ONCE)
                if not taken:
                    return
                try:
                    was_all = await self._send_off(taken)
                except (QuiverError, OSError) as error:
                    pause = self._backoff.next_seconds()
                    logger.warning("due messages of %s have to wait for %.1f s: %s", self._target.name, pause, error)
                    self._paused_until = self._clock.monotonic() + pause
                    return
                self._backoff.reset()
                is_more = not was_all or len(taken) == _TAKEN_AT_ONCE  # the few that became due meanwhile can wait

    async def _send_off(self, taken: list[Delayed]) -> bool:
        """Returns whether there was room for all of them."""
        try:
            rows = self._ahead.take([message.place for message in taken])
            others = sorted(message.place for message in taken if message.place not in rows)
            read, unread_from = await read_rows(self.schedule.log, others, _READ_BYTES)
            rows |= read
        except BaseException:
            self.state.put_back(taken)
            raise
        unread = {each.id for each in taken if each.place >= unread_from and each.place not in rows}
        self.state.put_back(each for each in taken if each.id in unread)
        await self._leave(departure([each for each in taken if each.id not in unread], rows))
        return not unread

    async def _leave(self, leaving: Departure) -> None:
        for message in leaving.lost:
            logger.error("delayed message %d of %s cannot be read and is lost", message.id, self._target.name)
        words = leaving.moved, leaving.expired, leaving.lost
        left = self.state.leave(Target(*self.place), *words, leaving.rescheduled)
        try:
            await self._journaled.write(left, sync=True)
        except Exception:
            self.state.stay(left, *words)
            raise
        for move, messages in zip(left.moves, leaving.parts, strict=True):
            self.moves.hold(move, messages)
        self.relay.submit(left.moves)

    @property
    def _is_full(self) -> bool:
        return self.moves.is_full(self.state.outbox.open)

    async def cancel(self, ids: Sequence[int]) -> set[int]:
        """Cancels messages; returns those that will never be delivered. The others had left, or never existed."""
        cancelled = self.state.cancel(ids)
        if not cancelled:
            return set()
        done = [message.id for message in cancelled]
        self._cancelling += 1
        try:
            await self._journaled.write(Cancelled(done), sync=True)
        except Exception:
            self.state.uncancel(cancelled)
            self._due_clock.note(self.place)
            raise
        finally:
            self._cancelling -= 1
        return set(done)

    async def reschedule(self, ids: Sequence[int], deliver_at_ms: int) -> set[int]:
        """Makes messages due at another time; returns those that will be delivered then. The others had left, or
        never existed. Raises InvalidRequest if one of them expires before that time."""
        waiting = [message for id in ids if (message := self.state.find(id)) is not None]
        await self._check_expiry(waiting, deliver_at_ms)
        before = self.state.reschedule([message.id for message in waiting], deliver_at_ms)
        if not before:
            return set()
        done = [message.id for message in before]
        try:
            await self._journaled.write(Rescheduled(packed(np.array(done, np.int64)), deliver_at_ms), sync=True)
        except Exception:
            self.state.undo_reschedule(before)
            raise
        finally:
            self._due_clock.note(self.place)
        return set(done)

    async def _check_expiry(self, messages: Sequence[Delayed], deliver_at_ms: int) -> None:
        if deliver_at_ms > self._clock.now_ms() + LONGEST_DELAY_MS:
            raise InvalidRequest(problem="a message can be delayed by 10 years at most")
        rows, _ = await read_rows(self.schedule.log, sorted(message.place for message in messages))
        for message in messages:
            expires_at_ms = row.expires_at_ms if (row := rows.get(message.place)) is not None else None
            if expires_at_ms is not None and expires_at_ms <= deliver_at_ms:
                raise InvalidRequest(
                    problem=f"delayed message {message.id} of partition {self.place.partition} expires at "
                    f"{format_time(expires_at_ms)}, before that time"
                )

    async def look_up(self, id: int) -> tuple[Delayed, DelayedStatus] | None:
        """A message and its state; None if it is not (or no longer) in the schedule log."""
        pending = self.state.find(id)
        if pending is not None:
            return pending, "pending"
        rows, _ = await read_rows(self.schedule.log, [id]) if id < self.state.known_below else ({}, 0)
        row = rows.get(id)
        if row is None or not row.is_original or self.schedule.tables.transactions.is_aborted_at(row.transaction, id):
            return None
        delayed = Delayed(id, row.deliver_at_ms or row.scheduled_ms, row.priority, id)
        if id in self.state.cancelled:
            return delayed, "cancelled"
        return delayed, "expired" if id in self.state.expired else "delivered"

    @property
    def timers_log(self) -> Log:
        """The journal, for those who read what was written."""
        return self._journaled.journal.log

    async def purge(self) -> None:
        """Removes every waiting message. Messages that are being moved are still delivered."""
        async with self._turn:
            purged = Purged(self.schedule.log.end_offset)
            await self._journaled.write(purged, sync=True)
            self.state.apply(purged)
            await self._trim()

    # maintenance

    async def maintain(self) -> None:
        """Removes what the schedule log no longer needs, and takes a snapshot if one is due."""
        end = self.schedule.log.end_offset
        while await self._relocate(end):
            pass
        async with self._turn:
            if self._closing:
                return
            await self._trim()
            is_much = self.unsaved_messages >= max(_SNAPSHOT_MESSAGES, len(self.state.pending) // 2)
            if is_much or self._journaled.is_snapshot_due():
                await self._snapshot()

    @property
    def unsaved_messages(self) -> int:
        """Messages that came or left since the last snapshot: the next start has to read them again."""
        return self.state.totals.changes - self._changes_at_snapshot

    async def save(self) -> None:
        async with self._turn:
            if not self._closing:
                await self._snapshot()

    async def _trim(self) -> None:
        """Drops the front of the schedule log as far as nothing there is needed."""
        log, floor = self.schedule.log, self.state.floor()
        if floor > log.start_offset and not self._cancelling:
            await self.schedule.drop_front(floor)
            self.state.forget_below(log.start_offset)

    async def _relocate(self, end: int) -> bool:
        """Copies some messages at the front, if that is due; returns whether there may be more below an offset."""
        async with self._turn:
            if self._closing or not is_relocation_due(self.schedule.log, self.state):
                return False
            messages = [each for each in self.state.pending.lowest(COPIED_AT_ONCE) if each.place < end]
            rows, unread_from = await read_rows(
                self.schedule.log, [message.place for message in messages], COPIED_BYTES
            )
            messages = [message for message in messages if message.place < unread_from]
            if not messages:
                return False
            if lost := [message for message in messages if message.place not in rows]:
                await self._leave(Departure([], [], lost))
            there = [message for message in messages if message.place in rows]
            places = await copy_rows(self.schedule, [rows[message.place] for message in there])
            await self.schedule.log.sync()
            event = self.state.relocation(there, places)
            await self._journaled.write(event, sync=True)
            self.state.apply(event)
            await self._trim()
            return True

    async def _snapshot(self) -> None:
        self._changes_at_snapshot = self.state.totals.changes
        await self._journaled.snapshot()

    def hold(self) -> None:
        """No move begins after this."""
        self._closing = True

    async def close(self) -> None:
        """Finishes what was accepted. Open moves are continued after the next start."""
        self.hold()
        async with self._turn:
            await self._ahead.close()
            await self.relay.close()
            await self.intake.finish()
            try:
                if self._is_worth_saving:
                    await self._snapshot()
            except (QuiverError, OSError) as error:
                logger.warning("no snapshot of the delays of %s: %s", self._target.name, error)
            await self.schedule.close()
            await self._journaled.close(with_snapshot=False)

    @property
    def _is_worth_saving(self) -> bool:
        """Whether the next start would have much to read, or would miss messages at the front that were counted."""
        unsaved, replay_bytes = self.unsaved_messages, self._journaled.journal.replay_bytes
        if unsaved > _UNSAVED_AT_CLOSE or replay_bytes > _REPLAY_AT_CLOSE_BYTES:
            return True
        return bool(unsaved or replay_bytes) and self.schedule.log.start_offset > 0

    async def abandon(self) -> None:
        """Ends all work, for a partition that is about to be deleted."""
        self.hold()
        self.schedule.abandon()
        async with self._turn:
            await self._ahead.close()
            await self.relay.close()
            await self.intake.finish()
            self.intake.let_go()
            await self.schedule.end()
            await self._journaled.abandon()
