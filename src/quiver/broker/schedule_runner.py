"""The runner of recurring schedules: waits for their times, and sends each message exactly once.

A firing is one journal record: the schedule's next time, and a move of one message into the topic. So a schedule
that has fired is never due for the same time again, and a message that was decided is never forgotten; the target
drops what comes twice.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from quiver.broker.partitions import Partitions
from quiver.metadata.service import MetadataService
from quiver.model.errors import PartitionNotFound, QuiverError, TopicNotFound
from quiver.model.schedule import Schedule
from quiver.moves.append import append_moved
from quiver.moves.carrier import Carrier
from quiver.moves.outbox import Move, Target, mover_id
from quiver.scheduling.firing import Firing, message_of
from quiver.scheduling.schedule_events import Event, Fired, FiringEnded
from quiver.scheduling.schedule_table import ScheduleState, ScheduleTable
from quiver.scheduling.timetable import due_time, parse_timetable
from quiver.structures.murmur2 import partition_for
from quiver.system.clock import Clock

logger = logging.getLogger(__name__)

MOVER = mover_id("schedules", 0, 0)
_LOOK_SECONDS = 1.0
"""However far the next time is: the wall clock may jump."""
_FIRED_AT_ONCE = 100
_ON_THE_WAY_MAX = 16
"""Messages of one schedule that wait for their topic; further ones are made up for when there is room again."""
_MANUAL_SECONDS = 5.0


class _Turn(NamedTuple):
    """A schedule whose time has come."""

    state: ScheduleState
    at_ms: int
    next_ms: int | None
    is_late: bool = False
    is_manual: bool = False
    error: str = ""


class ScheduleRunner:
    def __init__(
        self,
        table: ScheduleTable,
        append: Callable[[Event], Awaitable[None]],
        metadata: MetadataService,
        partitions: Partitions,
        *,
        clock: Clock,
        change: asyncio.Lock,
        ensure_topic: Callable[[str], Awaitable[None]],
        keep_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._table = table
        self._append = append
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._change = change
        self._ensure_topic = ensure_topic
        self._keep_up = keep_up
        self._carrier = Carrier("schedules", table.outbox, carry=self._carry, done=self._ended)
        self._trouble: dict[int, tuple[str, str]] = {}
        """By move: the schedule, and why its message is not in the topic yet, or never will be."""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._started_ms = 0

    def start(self) -> None:
        self._started_ms = self._clock.now_ms()
        self._carrier.submit(self._table.outbox.open.values())
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """A firing that has begun is journaled; one that is on its way may have to wait for the next start."""
        self._closing = True
        self.wake()
        if self._task is not None:
            await self._task
        await self._carrier.close()

    def wake(self) -> None:
        """The schedules have changed."""
        self._news.set()

    def trouble(self, name: str) -> str:
        """Why a message of a schedule has not arrived so far; empty when all is well."""
        return next((problem for schedule, problem in self._trouble.values() if schedule == name), "")

    async def fire_now(self, name: str) -> None:
        """Returns when the message is in the topic; when that takes long, `trouble` says why."""
        async with self._change:
            state = self._table.states[name]
            await self._ensure_topic(state.schedule.topic)
            self._metadata.topic(state.schedule.topic)
            moves = await self._fire([_Turn(state, self._clock.now_ms(), state.next_ms, is_manual=True)])
        await self._carrier.finished(moves, within_seconds=_MANUAL_SECONDS)

    async def _run(self) -> None:
        while not self._closing:
            self._news.clear()
            try:
                while not self._closing and await self._fire_due():
                    pass
                await self._keep_up()
            except (QuiverError, OSError) as error:
                logger.warning("schedules could not fire, will try again: %s", error)
                await _wait(self._news, _LOOK_SECONDS)
                continue
            except Exception:
                logger.exception("schedules could not fire, will try again")
                await _wait(self._news, _LOOK_SECONDS)
                continue
            await _wait(self._news, self._pause_seconds())

    def _pause_seconds(self) -> float:
        next_ms = self._table.next_time_ms(but_for=self._busy())
        if next_ms is None:
            return _LOOK_SECONDS
        return min(_LOOK_SECONDS, max(0.0, (next_ms - self._clock.now_ms()) / 1000))

    async def _fire_due(self) -> bool:
        """Fires what is due, some at a time; False when there is nothing left."""
        for name in self._table.due(self._clock.now_ms(), _FIRED_AT_ONCE):
            with contextlib.suppress(QuiverError):
                await self._ensure_topic(self._table.states[name].schedule.topic)
        async with self._change:
            now_ms = self._clock.now_ms()
            busy = self._busy()
            due = [name for name in self._table.due(now_ms, _FIRED_AT_ONCE + len(busy)) if name not in busy]
            turns = [self._turn(self._table.states[name], now_ms) for name in due[:_FIRED_AT_ONCE]]
            await self._fire(turns)
        return bool(turns)

    def _busy(self) -> set[str]:
        """Schedules that have enough on its way."""
        counts: dict[str, int] = {}
        for move in self._table.outbox.open.values():
            name = move.content[0]
            counts[name] = counts.get(name, 0) + 1
        return {name for name, count in counts.items() if count >= _ON_THE_WAY_MAX}

    def _turn(self, state: ScheduleState, now_ms: int) -> _Turn:
        schedule, first_ms = state.schedule, state.next_ms
        assert first_ms is not None, "it is due"
        try:
            timetable = parse_timetable(schedule.cron, schedule.timezone, schedule.anchor_ms)
        except QuiverError as error:  # its time zone is not known here any more
            return _Turn(state, first_ms, None, error=error.message)
        at_ms = due_time(timetable, first_ms, now_ms)
        is_late = at_ms != first_ms or at_ms < self._started_ms
        return _Turn(state, at_ms, timetable.next_after(now_ms), is_late)

    async def _fire(self, turns: Sequence[_Turn]) -> list[Move]:
        """Journals firings together and sends them on their way. Those that cannot be journaled stay due."""
        events = [self._fired(turn) for turn in turns]
        results = await asyncio.gather(*(self._append(event) for event in events), return_exceptions=True)
        moves: list[Move] = []
        failure: BaseException | None = None
        for event, result in reversed(list(zip(events, results, strict=True))):
            if isinstance(result, BaseException):
                failure = result
                if event.move is not None:
                    self._table.outbox.take_back(event.move)
                    self._carrier.taken_back()
            elif event.move is not None:
                moves.append(event.move)
        self._carrier.submit(moves)
        if failure is not None:
            raise failure
        return moves

    def _fired(self, turn: _Turn) -> Fired:
        schedule = turn.state.schedule
        if turn.error:
            return Fired(schedule.name, turn.at_ms, turn.next_ms, None, turn.error)
        try:
            target = self._target(schedule, turn.state.fired_count)
        except QuiverError as error:
            return Fired(schedule.name, turn.at_ms, turn.next_ms, None, error.message)
        firing = Firing.of(
            schedule,
            at_ms=turn.at_ms,
            fired_at_ms=self._clock.now_ms(),
            is_late=turn.is_late,
            is_manual=turn.is_manual,
        )
        move = self._table.outbox.begin(target, 1, msgspec.to_builtins(firing, builtin_types=(bytes,)))
        return Fired(schedule.name, turn.at_ms, turn.next_ms, move)

    def _target(self, schedule: Schedule, fired_count: int) -> Target:
        topic = self._metadata.topic(schedule.topic)
        count = topic.config.partitions
        number = fired_count % count if schedule.key is None else partition_for(schedule.key, count)
        return Target(topic.id, number)

    async def _carry(self, move: Move) -> None:
        firing = _firing_of(move)
        try:
            partition = self._partitions.get(*move.target)
            await append_moved(partition, mover=MOVER, sequence=move.sequence, messages=[message_of(firing)])
        except (TopicNotFound, PartitionNotFound):
            self._trouble[move.id] = (firing.schedule, "the topic was deleted before the message arrived")
        except QuiverError as error:
            self._trouble[move.id] = (firing.schedule, error.message)
            raise
        else:
            self._trouble.pop(move.id, None)

    async def _ended(self, move: Move) -> None:
        name, problem = self._trouble.pop(move.id, (_firing_of(move).schedule, ""))
        self.wake()
        await self._append(FiringEnded(name, move.id, problem))


def _firing_of(move: Move) -> Firing:
    return msgspec.convert(move.content, Firing)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
