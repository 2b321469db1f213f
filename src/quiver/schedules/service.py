"""Recurring schedules: adding, changing and removing them. `ScheduleRunner` makes them fire."""

import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from quiver.model.errors import (
    CorruptData,
    InvalidRequest,
    MessageTooLarge,
    QuiverError,
    ScheduleExists,
    ScheduleNotFound,
    ShuttingDown,
)
from quiver.model.limits import MIB, MOST_SCHEDULES
from quiver.model.names import check_name
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.outbox.targets import MoveTargets
from quiver.partition.pending import message_size
from quiver.schedules.events import CODEC, ScheduleRemoved, ScheduleSet
from quiver.schedules.firing import Firing, message_of
from quiver.schedules.runner import ScheduleRunner
from quiver.schedules.state import ScheduleState, ScheduleTable
from quiver.schedules.timetable import parse_timetable
from quiver.storage.journaled_state import JournaledState
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.pace import ToTheEnd
from quiver.system.randomness import Randomness
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

T = TypeVar("T")

LOG_ID = "internal/schedules"
_TIMES = ("cron", "timezone", "is_paused")
_MESSAGE = ("topic", "value", "key", "headers")


class ScheduleContext(NamedTuple):
    """What schedules need of the broker."""

    clock: Clock
    randomness: Randomness
    topics: TopicAdmin
    targets: MoveTargets


class Schedules:
    """Every change is on the journal before it takes effect, one at a time."""

    def __init__(self, catalogue: TopicCatalogue, partitions: Partitions, context: ScheduleContext) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._clock, self._randomness, self._topics, targets = context
        self._table = ScheduleTable()
        self._journaled = JournaledState(LOG_ID, self._table, CODEC, clock=self._clock)
        self._to_the_end = ToTheEnd()
        self._closing = False
        self._runner = ScheduleRunner(
            self._table, self._journaled, self._topics, catalogue, targets, clock=self._clock
        )

    async def start(self, storage: Storage, epoch: int) -> None:
        """Continues where the broker stopped last: an overdue schedule fires now, once."""
        try:
            await self._journaled.open(storage, epoch)
        except CorruptData as error:
            logger.error("schedules are not available until this is repaired: %s", error)
            return
        self._runner.start()

    async def stop(self) -> None:
        self._closing = True
        await self._to_the_end.finish()
        await self._runner.stop()
        await self._journaled.close()

    @property
    def problem(self) -> QuiverError | None:
        """Why schedules are not available; every request raises it."""
        return self._journaled.problem

    @property
    def on_the_way(self) -> int:
        """Messages that were fired and are not in their topics yet."""
        return len(self._table.outbox.open)

    @property
    def runs(self) -> Mapping[str, int]:
        """Times that have come since the start, by result."""
        return self._runner.runs

    async def list(self) -> list[ScheduleState]:
        """All of them, by name."""
        self._journaled.check()
        return [self._state(name) for name in sorted(self._table.states)]

    async def get(self, name: str) -> ScheduleState:
        """Raises ScheduleNotFound."""
        return self._state(name)

    def _state(self, name: str) -> ScheduleState:
        self._journaled.check()
        state = self._table.states.get(name)
        if state is None:
            raise ScheduleNotFound(schedule=name)
        return msgspec.structs.replace(state, error=self._runner.problem(name) or state.error)

    async def add(self, wanted: Schedule) -> ScheduleState:
        """Adds a schedule; it first fires at the next time of its timetable. An empty name gets a generated one."""
        name = wanted.name or f"{wanted.topic[:200]}-{self._randomness.token(4).hex()}"
        now_ms = self._clock.now_ms()
        schedule = msgspec.structs.replace(
            wanted, name=check_name(name, "schedule"), created_at_ms=now_ms, anchor_ms=now_ms
        )

        async def add() -> ScheduleState:
            await self._check_message(schedule)
            if name in self._table.states:
                raise ScheduleExists(schedule=name)
            if len(self._table.states) >= MOST_SCHEDULES:
                raise InvalidRequest(problem=f"there are {MOST_SCHEDULES} schedules already; remove some first")
            return await self._set(schedule, self._next_ms(schedule))

        return await self._in_turn(add)

    async def alter(self, name: str, changes: ScheduleChanges) -> ScheduleState:
        """With another timetable its next time is computed from now. Messages that were fired already do not
        change."""

        async def alter() -> ScheduleState:
            state = self._state(name)
            schedule = changes.applied_to(state.schedule, self._clock.now_ms())
            if any(getattr(changes, each) is not UNSET for each in _MESSAGE):
                await self._check_message(schedule)
            if any(getattr(schedule, each) != getattr(state.schedule, each) for each in _TIMES):
                return await self._set(schedule, self._next_ms(schedule))
            return await self._set(schedule, state.next_ms)

        return await self._in_turn(alter)

    async def remove(self, name: str) -> None:
        async def remove() -> None:
            self._state(name)
            await self._journaled.append(ScheduleRemoved(name))
            self._runner.wake()

        await self._in_turn(remove)

    async def run(self, name: str) -> ScheduleState:
        """Fires once, now, also while it is paused. Its own times stay as they are."""
        await self._runner.arrived(await self._in_turn(lambda: self._runner.fire_now(self._state(name))))
        return self._state(name)

    async def _in_turn(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Makes one change at a time, and completes it even if the caller stops waiting."""
        self._journaled.check()
        if self._closing or not self._journaled.is_open:
            raise ShuttingDown()

        async def make() -> T:
            async with self._runner.change:
                return await change()

        return await self._to_the_end.run(make())

    async def _set(self, schedule: Schedule, next_ms: int | None) -> ScheduleState:
        await self._journaled.append(ScheduleSet(schedule, next_ms))
        self._runner.wake()
        return self._state(schedule.name)

    def _next_ms(self, schedule: Schedule) -> int | None:
        timetable = parse_timetable(schedule.cron, schedule.timezone, schedule.anchor_ms)
        next_ms = timetable.next_after(self._clock.now_ms())
        if next_ms is None:
            raise InvalidRequest(problem=f"cron {schedule.cron!r} never fires")
        return None if schedule.is_paused else next_ms

    async def _check_message(self, schedule: Schedule) -> None:
        """Raises if the topic would not accept the message."""
        await self._topics.ensure(schedule.topic)
        topic = self._catalogue.topic(schedule.topic)
        size = message_size(message_of(Firing.of(schedule, at_ms=0, fired_at_ms=0, is_late=True)))
        limit = min(MIB, self._partitions.limits_for(topic.config).message_bytes)
        if size > limit:
            raise MessageTooLarge(size=size, limit=limit)
