"""Requests and responses about recurring schedules."""

import msgspec

from quiver.model.priority import Priority
from quiver.model.schedule import ScheduleChanges
from quiver.protocol.message import Message


class AddSchedule(Message, tag=70, frozen=True):
    cron: str
    topic: str
    value: bytes | None
    name: str = ""
    """Empty: the broker makes one up."""
    key: bytes | None = None
    headers: dict[str, bytes] = msgspec.field(default_factory=dict)
    priority: Priority = Priority.NORMAL
    timezone: str = "UTC"
    is_paused: bool = False


class ListSchedules(Message, tag=71, frozen=True):
    name: str | None = None
    """This one only."""


class AlterSchedule(Message, tag=72, frozen=True):
    name: str
    changes: ScheduleChanges


class RemoveSchedule(Message, tag=73, frozen=True):
    name: str


class RunSchedule(Message, tag=74, frozen=True):
    """Fires now, once; its own times stay as they are."""

    name: str


ScheduleRequest = AddSchedule | ListSchedules | AlterSchedule | RemoveSchedule | RunSchedule


class ScheduleInfo(msgspec.Struct, array_like=True, frozen=True):
    """A schedule, and how it is doing."""

    name: str
    cron: str
    timezone: str
    topic: str
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes]
    priority: Priority
    is_paused: bool
    created_at_ms: int
    next_ms: int | None
    """When it fires next; None while it is paused."""
    last_ms: int | None
    """The time its last firing was due at."""
    fired_count: int
    error: str
    """Why the last firing has sent nothing (so far); empty when all is well."""


class ScheduleList(Message, tag=170, frozen=True):
    schedules: list[ScheduleInfo]


ScheduleResponse = ScheduleList
