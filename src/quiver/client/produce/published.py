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

    @property
    def buffered(self) -> bool:
        """Whether the broker's database is away: the message is in the broker's local buffer, and cannot be read
        before it is stored. The offset is the one that it gets unless another broker has written meanwhile."""
        return False


class PublishedBuffered(Published):
    __slots__ = ()

    @property
    def buffered(self) -> bool:
        return True


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

    @property
    def buffered(self) -> bool:
        """Whether the broker's database is away: the messages are in the broker's local buffer, and cannot be read
        before they are stored."""
        return False


class SpanBuffered(Span):
    __slots__ = ()

    @property
    def buffered(self) -> bool:
        return True


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
