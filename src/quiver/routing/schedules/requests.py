"""What is asked of worker 0 about schedules."""

from quiver.links.request import PeerRequest
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.schedules.state import ScheduleState


class AllSchedules(PeerRequest[list[ScheduleState]], frozen=True):
    capability, method = "schedules", "list"


class OneSchedule(PeerRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "get"
    name: str


class AddSchedule(PeerRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "add"
    schedule: Schedule


class AlterSchedule(PeerRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "alter"
    name: str
    changes: ScheduleChanges


class RemoveSchedule(PeerRequest[None], frozen=True):
    capability, method = "schedules", "remove"
    name: str


class RunSchedule(PeerRequest[ScheduleState], frozen=True):
    capability, method = "schedules", "run"
    name: str
