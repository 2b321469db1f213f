"""What requests about recurring schedules ask of the broker."""

from collections.abc import Awaitable, Callable
from typing import Any

from quiver.broker.broker import Broker
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
from quiver.schedules.state import ScheduleState


async def _add(broker: Broker, request: AddSchedule) -> Message:
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


async def _list(broker: Broker, request: ListSchedules) -> Message:
    if request.name is None:
        found = await broker.schedules.list()
    else:
        found = [await broker.schedules.get(request.name)]
    return ScheduleList([_info(state) for state in found])


async def _alter(broker: Broker, request: AlterSchedule) -> Message:
    return ScheduleList([_info(await broker.schedules.alter(request.name, request.changes))])


async def _remove(broker: Broker, request: RemoveSchedule) -> Message:
    await broker.schedules.remove(request.name)
    return Done()


async def _run(broker: Broker, request: RunSchedule) -> Message:
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


SCHEDULE_RESPONSES: dict[type[Message], Callable[[Broker, Any], Awaitable[Message]]] = {
    AddSchedule: _add,
    ListSchedules: _list,
    AlterSchedule: _alter,
    RemoveSchedule: _remove,
    RunSchedule: _run,
}
