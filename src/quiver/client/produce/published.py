"""Where messages ended up."""

from typing import NamedTuple


class Published(NamedTuple):
    """The place of one message. The offset is -1 with acks `none`, which are not answered."""

    topic: str
    partition: int
    offset: int

    @property
    def delayed(self) -> bool:
        """Whether the message waits for its time; the offset is its id among the delayed messages then."""
        return False

    @property
    def duplicate(self) -> bool:
        """Whether the message was published before under the same id; the offset is that of the first one."""
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
    """The place of a run of messages that were stored together."""

    topic: str
    partition: int
    offset: int
    message_count: int

    @property
    def delayed(self) -> bool:
        """Whether the messages wait for their time; the offsets are their ids among the delayed messages then."""
        return False

    @property
    def duplicate(self) -> bool:
        """Whether the messages were published before under the same ids; the offsets are those of the first ones."""
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
