"""The five priority levels, most urgent first."""

from enum import IntEnum
from typing import Literal

from quiver.model.errors import InvalidRequest


class Priority(IntEnum):
    CRITICAL = 0
    HIGH = 1
    NORMAL = 2
    LOW = 3
    BACKGROUND = 4


PriorityName = Literal["critical", "high", "normal", "low", "background"]
PriorityLevel = PriorityName | Literal[0, 1, 2, 3, 4] | Priority
"""As users write it."""

_BY_NAME = {level.name.lower(): level for level in Priority}
NAMES: tuple[str, ...] = tuple(_BY_NAME)


def parse_priority(value: object) -> Priority:
    """A level from its name or number; None means normal."""
    if value is None:
        return Priority.NORMAL
    if isinstance(value, str) and value.lower() in _BY_NAME:
        return _BY_NAME[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 4:
        return Priority(value)
    raise InvalidRequest(problem=f"priority {value!r} is not one of {', '.join(NAMES)} (or 0 to 4)")
