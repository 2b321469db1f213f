"""What is known of sampled messages when they are appended, until the next round writes their spans."""

from typing import NamedTuple

from quiver.model.errors import InvalidFrame
from quiver.model.limits import KIB
from quiver.model.names import TopicPartition
from quiver.records.header import COMPRESSION_MASK, FrameHeader, StampedFrame
from quiver.traces.sampled_rows import FrameBody, SampledRows

_MOST_HEADERS_BYTES = 64 * KIB
"""Frames with more are opened later, in a thread."""


class UnopenedFrame(NamedTuple):
    """Is compressed, or has many headers."""

    header: FrameHeader


class NotedFrames:
    """Of one partition, in order."""

    def __init__(self, journal_position: int) -> None:
        self.journal_position = journal_position
        """No record of the delivery journal before this one is about their messages."""
        self.frames: list[SampledRows | UnopenedFrame] = []

    @property
    def message_count(self) -> int:
        """Those that are known."""
        return sum(len(frame.offsets) for frame in self.frames if isinstance(frame, SampledRows))


class Noted:
    """At most so many frames and messages; what is more is left to the caller to count."""

    def __init__(self, most_frames: int, most_messages: int) -> None:
        self._most_frames = most_frames
        self._most_messages = most_messages
        self._messages = 0
        self.partitions: dict[TopicPartition, NotedFrames] = {}
        self.frame_count = 0

    def add(self, place: TopicPartition, stamped: StampedFrame, journal_position: int) -> int:
        """Returns how many messages were dropped, at most."""
        found = _opened(stamped)
        if found is None:
            return 0
        messages = len(found.offsets) if isinstance(found, SampledRows) else 0
        if self.frame_count >= self._most_frames or self._messages + messages > self._most_messages:
            return messages or found.header.record_count
        noted = self.partitions.get(place)
        if noted is None:
            noted = self.partitions[place] = NotedFrames(journal_position)
        noted.frames.append(found)
        self.frame_count += 1
        self._messages += messages
        return 0

    def take(self) -> dict[TopicPartition, NotedFrames]:
        """Everything."""
        taken, self.partitions = self.partitions, {}
        self.frame_count = self._messages = 0
        return taken


def _opened(stamped: StampedFrame) -> SampledRows | UnopenedFrame | None:
    """None if no message has the header of a trace, whatever the frame says."""
    header = stamped.header
    if header.attributes & COMPRESSION_MASK:
        return UnopenedFrame(header)
    try:
        body = FrameBody(memoryview(stamped.body)[: header.length - header.padding], header)
        return UnopenedFrame(header) if body.headers_size > _MOST_HEADERS_BYTES else body.sampled_rows()
    except InvalidFrame:
        return None
