"""Recurring schedules: every call goes to worker 0."""

from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.model.schedule import Schedule, ScheduleChanges
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
    """Of a worker that has none itself."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def list(self) -> list[ScheduleState]:
        return await self._call(AllSchedules())

    async def get(self, name: str) -> ScheduleState:
        return await self._call(OneSchedule(name))

    async def add(self, wanted: Schedule) -> ScheduleState:
        return await self._call(AddSchedule(wanted))

    async def alter(self, name: str, changes: ScheduleChanges) -> ScheduleState:
        return await self._call(AlterSchedule(name, changes))

    async def remove(self, name: str) -> None:
        await self._call(RemoveSchedule(name))

    async def run(self, name: str) -> ScheduleState:
        return await self._call(RunSchedule(name))

    async def _call(self, request: PeerRequest[R]) -> R:
        return (await self._peers.call(CONTROLLER, request)).value
