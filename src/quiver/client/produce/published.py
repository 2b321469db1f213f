"""The partitions and offsets of published messages."""

from typing import NamedTuple


class Published(NamedTuple):
    """The partition and offset of one message. The offset is -1 with acks `none`."""

    topic: str
    partition: int
    offset: int

    @property
    def delayed(self) -> bool:
        """Whether the message is delayed; then the offset is its id among the delayed messages."""
        return False

    @property
    def duplicate(self) -> bool:
        """Whether a message with the same id was published before; the offset is that of the first one."""
        return False


class PublishedLater(Published):
    __slots__ = ()

    @property
    def delayed(self) -> bool:
        return True


class PublishedBefore(Published):
    __slots__ = ()

    @property
    def duplicate(self) -> bool:
        return True


class ScheduledBefore(PublishedBefore):
    __slots__ = ()

    @property
    def delayed(self) -> bool:
        return True


class Span(NamedTuple):
    """The partition and offsets of messages that were stored together."""

    topic: str
    partition: int
    offset: int
    message_count: int

    @property
    def delayed(self) -> bool:
        """Whether the messages are delayed; then the offsets are their ids among the delayed messages."""
        return False

    @property
    def duplicate(self) -> bool:
        """Whether messages with the same ids were published before; the offsets are those of the first ones."""
        return False


class SpanLater(Span):
    __slots__ = ()

    @property
    def delayed(self) -> bool:
        return True


class SpanBefore(Span):
    __slots__ = ()

    @property
    def duplicate(self) -> bool:
        return True


class SpanScheduledBefore(SpanBefore):
    __slots__ = ()

    @property
    def delayed(self) -> bool:
        return True
