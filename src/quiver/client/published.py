"""Where messages ended up."""

from typing import NamedTuple


class Published(NamedTuple):
    """The place of one message. The offset is -1 with acks `none`, where nobody learns it."""

    topic: str
    partition: int
    offset: int
    delayed: bool = False
    """The message waits for its time; `offset` is its id among the delayed messages of the partition."""


class Span(NamedTuple):
    """The place of a run of messages that were stored together."""

    topic: str
    partition: int
    offset: int
    message_count: int
    delayed: bool = False
