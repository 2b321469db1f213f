"""What worker 0 does with its schedules for others."""

from quiver.broker.broker import Broker
from quiver.links.request import Handlers, Reply
from quiver.routing.schedules.requests import (
    AddSchedule,
    AllSchedules,
    AlterSchedule,
    OneSchedule,
    RemoveSchedule,
    RunSchedule,
)
from quiver.schedules.state import ScheduleState


class ScheduleHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._schedules = broker.schedules
        handlers.add(AllSchedules, self._list)
        handlers.add(OneSchedule, self._get)
        handlers.add(AddSchedule, self._add)
        handlers.add(AlterSchedule, self._alter)
        handlers.add(RemoveSchedule, self._remove)
        handlers.add(RunSchedule, self._run)

    async def _list(self, request: AllSchedules, payload: memoryview) -> Reply[list[ScheduleState]]:
        return Reply(await self._schedules.list())

    async def _get(self, request: OneSchedule, payload: memoryview) -> Reply[ScheduleState]:
        return Reply(await self._schedules.get(request.name))

    async def _add(self, request: AddSchedule, payload: memoryview) -> Reply[ScheduleState]:
        return Reply(await self._schedules.add(request.schedule))

    async def _alter(self, request: AlterSchedule, payload: memoryview) -> Reply[ScheduleState]:
        return Reply(await self._schedules.alter(request.name, request.changes))

    async def _remove(self, request: RemoveSchedule, payload: memoryview) -> Reply[None]:
        await self._schedules.remove(request.name)
        return Reply(None)

    async def _run(self, request: RunSchedule, payload: memoryview) -> Reply[ScheduleState]:
        return Reply(await self._schedules.run(request.name))
