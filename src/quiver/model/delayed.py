"""Delayed messages as they are listed and named."""

from typing import Literal, NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.priority import Priority

DelayedStatus = Literal["pending", "delivered", "cancelled", "expired"]


class DelayedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message that enters its topic at a time, or what became of it."""

    partition: int
    id: int
    """What publishing it answered as its offset. It is not the offset that it gets in the topic."""
    deliver_at_ms: int
    priority: Priority
    state: DelayedStatus


class DelayedId(NamedTuple):
    """Users write it `partition:id`."""

    partition: int
    id: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.id}"


def parse_delayed_id(text: str) -> DelayedId:
    parts = text.split(":") if len(text) <= 40 else []
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidRequest(problem=f"{text[:50]!r} is not the id of a delayed message, such as 0:42")
    return DelayedId(int(parts[0]), int(parts[1]))
