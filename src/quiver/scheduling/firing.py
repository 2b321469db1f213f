"""One message of a schedule on its way into a topic."""

import msgspec

from quiver.model.message import NewMessage
from quiver.model.priority import Priority
from quiver.model.schedule import Schedule
from quiver.model.times import format_time


class Firing(msgspec.Struct, frozen=True, array_like=True):
    """The content of a move. It has everything the message needs: later changes of the schedule do not touch it."""

    schedule: str
    at_ms: int
    """The time it was due at."""
    fired_at_ms: int
    is_late: bool
    """It makes up for one or more that were missed."""
    is_manual: bool
    value: bytes | None
    key: bytes | None
    headers: dict[str, bytes]
    priority: Priority

    @classmethod
    def of(
        cls, schedule: Schedule, *, at_ms: int, fired_at_ms: int, is_late: bool = False, is_manual: bool = False
    ) -> "Firing":
        return cls(
            schedule.name,
            at_ms,
            fired_at_ms,
            is_late,
            is_manual,
            schedule.value,
            schedule.key,
            schedule.headers,
            schedule.priority,
        )


def message_of(firing: Firing) -> NewMessage:
    """The schedule's own headers, and those that say where the message comes from."""
    headers = {
        **firing.headers,
        "schedule.name": firing.schedule.encode(),
        "schedule.time": format_time(firing.at_ms).encode(),
    }
    if firing.is_late:
        headers["schedule.late"] = b"true"
    if firing.is_manual:
        headers["schedule.manual"] = b"true"
    return NewMessage(
        value=firing.value,
        key=firing.key,
        headers=headers,
        timestamp_ms=firing.fired_at_ms,
        priority=firing.priority,
    )
