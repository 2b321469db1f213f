"""What is asked of worker 0 about schedules."""

from quiver.broker.broker import Broker
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.routing.owned_request import OwnedRequest
from quiver.schedules.state import ScheduleState


class AllSchedules(OwnedRequest[list[ScheduleState]], frozen=True):
    capability, method = "schedules", "list"

    async def carry_out(self, broker: Broker) -> list[ScheduleState]:
        return await broker.schedules.list()


class OneSchedule(OwnedRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "get"
    name: str

    async def carry_out(self, broker: Broker) -> ScheduleState:
        return await broker.schedules.get(self.name)


class AddSchedule(OwnedRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "add"
    schedule: Schedule

    async def carry_out(self, broker: Broker) -> ScheduleState:
        return await broker.schedules.add(self.schedule)


class AlterSchedule(OwnedRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "alter"
    name: str
    changes: ScheduleChanges

    async def carry_out(self, broker: Broker) -> ScheduleState:
        return await broker.schedules.alter(self.name, self.changes)


class RemoveSchedule(OwnedRequest[None], frozen=True):
    capability, method = "schedules", "remove"
    name: str

    async def carry_out(self, broker: Broker) -> None:
        await broker.schedules.remove(self.name)


class RunSchedule(OwnedRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "run"
    name: str

    async def carry_out(self, broker: Broker) -> ScheduleState:
        return await broker.schedules.run(self.name)


SCHEDULE_REQUESTS = (AllSchedules, OneSchedule, AddSchedule, AlterSchedule, RemoveSchedule, RunSchedule)
