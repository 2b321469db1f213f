"""What the reader of a stream is processing: messages of one partition, or an Arrow batch. Pure."""

import operator
from collections.abc import Iterator

from quiver.client.message import Message
from quiver.client.read.cursor import Cursor
from quiver.client.read.partition_source import PartitionSource


class CurrentBatch:
    """Messages are handed out one at a time; the rest can be taken back at any moment, by any thread.

    `left` yields each message once, so it goes either to the reader or to the caller that takes the rest back. The
    message that was handed out last is the current one.
    """

    __slots__ = ("_end", "_messages", "_returned", "cursor", "left", "source")

    def __init__(self, source: PartitionSource, cursor: Cursor, messages: list[Message], end: int) -> None:
        """`end` is the offset after all of it. Without messages, it is one Arrow batch."""
        self.source = source
        self.cursor = cursor
        self.left: Iterator[Message] = iter(messages)
        self._messages = messages
        self._returned: list[Message] = []
        self._end = end

    def take_back(self) -> None:
        """The reader gets nothing more of this."""
        self._returned += list(self.left)

    def position(self, *, done: bool) -> int | None:
        """The next offset to process; the current message (or batch) counts if it is `done`."""
        if not self._messages:
            return self._end if done else None
        asked = len(self._messages) - operator.length_hint(self.left) - len(self._returned)
        if asked == 0:
            return None
        if done and asked == len(self._messages):
            return self._end
        return self._messages[asked - 1].offset + done

    def rest(self) -> "CurrentBatch | None":
        """What was taken back, to be handed out again."""
        return CurrentBatch(self.source, self.cursor, self._returned, self._end) if self._returned else None
