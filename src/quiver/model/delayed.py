"""Delayed messages as they are listed and named."""

from typing import Literal, NamedTuple

import msgspec

from quiver.model.errors import InvalidRequest
from quiver.model.numbers import shown, whole_number
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
    """Users write it `partition:id`, or `id` where one partition has it."""

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
