"""Requests and responses about the life of a message."""

from quiver.model.trace.life import MessageLife
from quiver.protocol.message import Message


class GetLife(Message, tag=95, frozen=True):
    """What happened to a message. Response: Life."""

    topic: str
    partition: int
    offset: int


LifeRequest = GetLife


class Life(Message, tag=195, frozen=True):
    life: MessageLife


LifeResponse = Life
