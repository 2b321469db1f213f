"""Requests and responses about delayed messages."""

from quiver.model.schedule import DelayedMessage
from quiver.protocol.message import Message


class ListDelayed(Message, tag=60, frozen=True):
    """Pending messages in order of time."""

    topic: str
    limit: int = 1000
    skip: int = 0


class GetDelayed(Message, tag=61, frozen=True):
    topic: str
    partition: int
    """-1: the one that has it."""
    id: int


class CancelDelayed(Message, tag=62, frozen=True):
    topic: str
    partition: int
    ids: list[int]


class RescheduleDelayed(Message, tag=63, frozen=True):
    topic: str
    partition: int
    ids: list[int]
    deliver_at_ms: int
    """When they are due from now on; a time that has passed means now."""


DelayRequest = ListDelayed | GetDelayed | CancelDelayed | RescheduleDelayed


class DelayedList(Message, tag=160, frozen=True):
    messages: list[DelayedMessage]
    total: int
    """How many are pending."""


class Delayed(Message, tag=161, frozen=True):
    message: DelayedMessage


class CancelledDelayed(Message, tag=162, frozen=True):
    ids: list[int]
    """Those that are cancelled now. The others had left, or never existed."""


class RescheduledDelayed(Message, tag=163, frozen=True):
    ids: list[int]
    """Those that are due at the new time. The others had left, or never existed."""


DelayResponse = DelayedList | Delayed | CancelledDelayed | RescheduledDelayed
