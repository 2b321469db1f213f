"""Recurring schedules: every call goes to worker 0."""

from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.routing.controller_route import ControllerRoute
from quiver.routing.schedules.requests import (
    AddSchedule,
    AllSchedules,
    AlterSchedule,
    OneSchedule,
    RemoveSchedule,
    RunSchedule,
)
from quiver.schedules.state import ScheduleState


class RoutedSchedules:
    def __init__(self, controller: ControllerRoute) -> None:
        self._controller = controller

    async def list(self) -> list[ScheduleState]:
        return await self._controller.call(AllSchedules())

    async def get(self, name: str) -> ScheduleState:
        return await self._controller.call(OneSchedule(name))

    async def add(self, wanted: Schedule) -> ScheduleState:
        return await self._controller.call(AddSchedule(wanted))

    async def alter(self, name: str, changes: ScheduleChanges) -> ScheduleState:
        return await self._controller.call(AlterSchedule(name, changes))

    async def remove(self, name: str) -> None:
        await self._controller.call(RemoveSchedule(name))

    async def run(self, name: str) -> ScheduleState:
        return await self._controller.call(RunSchedule(name))
