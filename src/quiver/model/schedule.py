"""Messages that enter a topic later: delayed messages, and recurring schedules."""

from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import shown, whole_number
from quiver.model.priority import Priority
from quiver.model.times import parse_duration_ms, parse_time_ms

DelayedStatus = Literal["pending", "delivered", "cancelled", "expired"]


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A value of None is a tombstone."""

    name: str
    cron: str
    """A cron expression or `@every 30s`, as it was written."""
    timezone: str = "UTC"
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: dict[str, bytes] = msgspec.field(default_factory=dict)
    priority: Priority = Priority.NORMAL
    is_paused: bool = False
    created_at_ms: int = 0
    anchor_ms: int = 0
    """When `cron` was set; intervals are counted from here."""


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The fields to change; the others stay as they are."""

    cron: str | UnsetType = UNSET
    timezone: str | UnsetType = UNSET
    topic: str | UnsetType = UNSET
    value: bytes | UnsetType | None = UNSET
    key: bytes | UnsetType | None = UNSET
    headers: dict[str, bytes] | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    is_paused: bool | UnsetType = UNSET

    def applied_to(self, schedule: Schedule, now_ms: int) -> Schedule:
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if "cron" in given:
            given["anchor_ms"] = now_ms
        return msgspec.structs.replace(schedule, **given)


class DelayedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message that enters its topic at a given time, and its state."""

    partition: int
    id: int
    """What publishing it returned as its offset. It gets another offset when it enters the topic."""
    deliver_at_ms: int
    priority: Priority
    state: DelayedStatus


def due_ms(delay: object, deliver_at: object, now_ms: int) -> int:
    """When a delayed message is to be due: so long from now, or at a time."""
    if (delay is None) == (deliver_at is None):
        raise InvalidRequest(problem="say when: give either delay or deliver_at")
    return parse_time_ms(deliver_at, "deliver_at") if delay is None else now_ms + parse_duration_ms(delay, "delay")


class DelayedId(NamedTuple):
    """Users write it `partition:id`, or just `id` if only one partition has it."""

    partition: int | None
    id: int

    def __str__(self) -> str:
        return str(self.id) if self.partition is None else f"{self.partition}:{self.id}"


def parse_delayed_id(text: str) -> DelayedId:
    match [whole_number(part) for part in text.split(":")]:
        case [int(partition), int(id)]:
            return DelayedId(partition, id)
        case [int(id)]:
            return DelayedId(None, id)
    raise InvalidRequest(problem=f"{shown(text)} is not the id of a delayed message, such as 0:42")
