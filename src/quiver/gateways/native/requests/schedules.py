"""What requests about recurring schedules ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.model.schedule import Schedule
from quiver.protocol.message import Message
from quiver.protocol.messages import Done
from quiver.protocol.schedule_messages import (
    AddSchedule,
    AlterSchedule,
    ListSchedules,
    RemoveSchedule,
    RunSchedule,
    ScheduleInfo,
    ScheduleList,
)
from quiver.routing.facade import Facade
from quiver.schedules.state import ScheduleState


async def _add(broker: Facade, request: AddSchedule) -> Message:
    wanted = Schedule(
        name=request.name,
        cron=request.cron,
        timezone=request.timezone,
        topic=request.topic,
        value=request.value,
        key=request.key,
        headers=request.headers,
        priority=request.priority,
        is_paused=request.is_paused,
    )
    return ScheduleList([_info(await broker.schedules.add(wanted))])


async def _list(broker: Facade, request: ListSchedules) -> Message:
    if request.name is None:
        found = await broker.schedules.list()
    else:
        found = [await broker.schedules.get(request.name)]
    return ScheduleList([_info(state) for state in found])


async def _alter(broker: Facade, request: AlterSchedule) -> Message:
    return ScheduleList([_info(await broker.schedules.alter(request.name, request.changes))])


async def _remove(broker: Facade, request: RemoveSchedule) -> Message:
    await broker.schedules.remove(request.name)
    return Done()


async def _run(broker: Facade, request: RunSchedule) -> Message:
    return ScheduleList([_info(await broker.schedules.run(request.name))])


def _info(state: ScheduleState) -> ScheduleInfo:
    schedule = state.schedule
    return ScheduleInfo(
        schedule.name,
        schedule.cron,
        schedule.timezone,
        schedule.topic,
        schedule.value,
        schedule.key,
        schedule.headers,
        schedule.priority,
        schedule.is_paused,
        schedule.created_at_ms,
        state.next_ms,
        state.last_ms,
        state.fired_count,
        state.error,
    )


SCHEDULE_RESPONSES: dict[type[Message], Callable[[Facade, Any], Awaitable[Message]]] = {
    AddSchedule: _add,
    ListSchedules: _list,
    AlterSchedule: _alter,
    RemoveSchedule: _remove,
    RunSchedule: _run,
}
