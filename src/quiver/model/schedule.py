"""A recurring schedule: what it sends, where and when."""

import msgspec
from msgspec import UNSET, UnsetType

from quiver.model.priority import Priority


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
    """What intervals are counted from: when `cron` was set."""


class ScheduleChanges(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is absent stays as it is."""

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
