"""The runner of recurring schedules: waits for their times, and sends each message exactly once.

A firing is one journal record: the schedule's next time, and a move of one message into the topic. So a schedule
that has fired is never due for the same time again, and a message that was decided is never forgotten; the target
recognises repeats.
"""

import asyncio
import contextlib
import logging
from collections import Counter

from quiver.model.errors import QuiverError
from quiver.model.limits import MIB
from quiver.model.schedule import Schedule
from quiver.outbox.outbox import Move, Target
from quiver.outbox.relay import OutboxRelay
from quiver.outbox.targets import MoveTargets
from quiver.schedules.events import Event, Fired
from quiver.schedules.firing import FiringBatch
from quiver.schedules.firing_moves import FiringMoves
from quiver.schedules.state import ScheduleState, ScheduleTable
from quiver.schedules.timetable import due_time, parse_timetable
from quiver.storage.journaled_state import JournaledState
from quiver.structures.murmur2 import partition_for
from quiver.system.clock import Clock
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""The longest wait, because the wall clock may jump."""
_FIRED_AT_ONCE = 100
_BATCH_BYTES = 4 * MIB
_ON_THE_WAY_MAX = 16
"""Messages of one schedule that may wait for their topic; further firings are made up for later."""
_MANUAL_SECONDS = 5.0


class ScheduleRunner:
    def __init__(
        self,
        table: ScheduleTable,
        journaled: JournaledState[Event],
        topics: TopicAdmin,
        catalogue: TopicCatalogue,
        targets: MoveTargets,
        *,
        clock: Clock,
    ) -> None:
        self._table = table
        self._journaled = journaled
        self._catalogue = catalogue
        self._clock = clock
        self.change = asyncio.Lock()
        """Held to change schedules or to fire them."""
        self._topics = topics
        self._news = asyncio.Event()
        """Set when schedules have changed, or messages are in their topics."""
        self._moves = FiringMoves(table, journaled, targets, self._news)
        self._relay = OutboxRelay("schedules", table.outbox, self._moves)
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._started_ms = 0
        self.runs = {"fired": 0, "failed": 0}
        """Since the start: firings, and times at which nothing could be sent."""

    def start(self) -> None:
        self._started_ms = self._clock.now_ms()
        self._relay.submit(self._table.outbox.open.values())
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """A firing that has begun is journaled; its message may have to wait for the next start."""
        self._closing = True
        self.wake()
        if self._task is not None:
            await self._task
        await self._relay.close()
        await self._moves.finish()

    def wake(self) -> None:
        """The schedules have changed."""
        self._news.set()

    def problem(self, name: str) -> str:
        """Why a fired message is not in its topic yet; empty when all is well."""
        return self._moves.problem(name)

    async def fire_now(self, state: ScheduleState) -> list[Move]:
        """Sends a message in addition to the schedule's own times. The caller has the lock."""
        await self._topics.ensure(state.schedule.topic)
        self._catalogue.topic(state.schedule.topic)
        now_ms = self._clock.now_ms()
        batch = FiringBatch(self._table.outbox, self._target)
        batch.add(state, at_ms=now_ms, next_ms=state.next_ms, fired_at_ms=now_ms, is_manual=True)
        return await self._fire(batch)

    async def arrived(self, moves: list[Move]) -> None:
        """Returns when messages are in their topics; when that takes long, `problem` says why."""
        await self._relay.finished(moves, within_seconds=_MANUAL_SECONDS)

    async def _run(self) -> None:
        while not self._closing:
            self._news.clear()
            try:
                while not self._closing and await self._fire_due():
                    pass
                await self._snapshot_if_due()
            except (QuiverError, OSError) as error:
                logger.warning("schedules could not fire, will try again: %s", error)
                await _wait(self._news, _LOOK_SECONDS)
                continue
            except Exception:
                logger.exception("schedules could not fire, will try again")
                await _wait(self._news, _LOOK_SECONDS)
                continue
            await _wait(self._news, self._pause_seconds())

    async def _snapshot_if_due(self) -> None:
        async with self.change:  # moves that are begun and not journaled yet must not be in it
            await self._journaled.snapshot_if_due()

    def _pause_seconds(self) -> float:
        next_ms = self._table.next_time_ms(but_for=self._busy())
        if next_ms is None:
            return _LOOK_SECONDS
        return min(_LOOK_SECONDS, max(0.0, (next_ms - self._clock.now_ms()) / 1000))

    async def _fire_due(self) -> bool:
        """Fires what is due, some at a time; False when there is nothing left."""
        due_states = [self._table.states[name] for name in self._table.due(self._clock.now_ms(), _FIRED_AT_ONCE)]
        for state in due_states:  # schedules may be removed meanwhile
            with contextlib.suppress(QuiverError):
                await self._topics.ensure(state.schedule.topic)
        async with self.change:
            now_ms = self._clock.now_ms()
            busy = self._busy()
            due = [name for name in self._table.due(now_ms, _FIRED_AT_ONCE + len(busy)) if name not in busy]
            batch = FiringBatch(self._table.outbox, self._target)
            for name in due[:_FIRED_AT_ONCE]:
                self._add_turn(batch, self._table.states[name], now_ms)
                if batch.size_bytes > _BATCH_BYTES:
                    break
            await self._fire(batch)
        return bool(due)

    def _busy(self) -> set[str]:
        """Schedules that already have enough messages waiting for their topics."""
        counts = Counter(firing[0] for move in self._table.outbox.open.values() for firing in move.content)
        return {name for name, count in counts.items() if count >= _ON_THE_WAY_MAX}

    def _add_turn(self, batch: FiringBatch, state: ScheduleState, now_ms: int) -> None:
        schedule, first_ms = state.schedule, state.next_ms
        assert first_ms is not None, "it is due"
        try:
            timetable = parse_timetable(schedule.cron, schedule.timezone, schedule.anchor_ms)
        except QuiverError as error:  # its time zone no longer exists on this machine
            batch.skip(state, at_ms=first_ms, next_ms=None, error=error.message)
            return
        at_ms = due_time(timetable, first_ms, now_ms)
        is_late = at_ms != first_ms or at_ms < self._started_ms
        batch.add(state, at_ms=at_ms, next_ms=timetable.next_after(now_ms), fired_at_ms=now_ms, is_late=is_late)

    async def _fire(self, batch: FiringBatch) -> list[Move]:
        """Journals firings together and starts their moves; if they cannot be journaled, they stay due."""
        if not batch.turns:
            return []
        moves = batch.begin()
        try:
            await self._journaled.append(Fired(batch.turns, moves))
        except Exception:
            for move in reversed(moves):
                self._table.outbox.take_back(move)
            self._relay.taken_back()
            raise
        for turn in batch.turns:
            self.runs["failed" if turn.error else "fired"] += 1
        self._relay.submit(moves)
        return moves

    def _target(self, schedule: Schedule, fired_count: int) -> Target:
        topic = self._catalogue.topic(schedule.topic)
        count = topic.config.partitions
        number = fired_count % count if schedule.key is None else partition_for(schedule.key, count)
        return Target(topic.id, number)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
