"""The position of a reader in one partition. Pure: responses in, frames out."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from quiver.client.read.expiry import Expiry
from quiver.model.errors import CorruptData, InvalidFrame
from quiver.model.limits import Limits
from quiver.protocol.messages import FetchedPart
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.expiry import Past, may_be_past, past_rows
from quiver.records.header import FrameHeader
from quiver.records.read import OpenFrame, open_frame, split_frames

NO_END = 2**63 - 1


class ReadFrame(NamedTuple):
    """A frame whose messages from `start` to below `stop` are wanted."""

    partition: int
    frame: OpenFrame
    start: int
    stop: int
    past: Past | None = None
    """Which rows are expired and therefore not wanted; None: none of them."""

    @property
    def in_range(self) -> Past:
        """By row, whether it is from `start` to below `stop`."""
        offsets = np.asarray(self.frame.offsets())
        return (offsets >= self.start) & (offsets < self.stop)

    @property
    def wanted(self) -> Past:
        """By row, whether it is in that range and not expired."""
        return self.in_range if self.past is None else self.in_range & ~self.past

    @property
    def is_empty(self) -> bool:
        """Whether everything is left out because it is expired."""
        return self.past is not None and not bool(self.wanted.any())

    @property
    def expired_count(self) -> int:
        """Messages that are left out because they are expired."""
        return 0 if self.past is None else int(np.count_nonzero(self.in_range & self.past))


class StoredFrame(NamedTuple):
    """A frame in a response, not opened yet."""

    cursor: "Cursor"
    payload: memoryview
    position: int
    header: FrameHeader
    start: int
    end: int
    """The offset after it, and after frames that follow and are left out."""
    is_hidden: bool = False
    """Hidden from readers: a control frame, or one of an aborted transaction. It only advances the position."""
    expiry: Expiry | None = None
    """None: expired messages are wanted too."""

    def open(self, topic: str, limits: Limits, monotonic: float) -> ReadFrame:
        """Checks and opens the frame. Raises CorruptData if its bytes are not what the producer sent."""
        cursor = self.cursor
        try:
            frame = open_frame(self.payload, self.position, limits=limits, header=self.header)
        except InvalidFrame as error:
            raise _corrupt(topic, cursor.partition, error, self.header.next_offset) from None
        return ReadFrame(cursor.partition, frame, self.start, cursor.end, self._past(frame, monotonic))

    def _past(self, frame: OpenFrame, monotonic: float) -> Past | None:
        if self.expiry is None:
            return None
        now_ms, ttl_ms = self.expiry.now_ms(monotonic), self.expiry.ttl_ms
        return past_rows(frame, now_ms, ttl_ms) if may_be_past(self.header, now_ms, ttl_ms) else None


class Cursor:
    __slots__ = ("end", "offset", "partition", "readable_end")

    def __init__(self, partition: int, offset: int, end: int = NO_END) -> None:
        self.partition = partition
        self.offset = offset
        self.end = end
        self.readable_end = -1

    @property
    def is_finished(self) -> bool:
        return self.offset >= self.end

    @property
    def has_all_there_is_to_come(self) -> bool:
        """Everything up to the end is stored already, so there is nothing to wait for."""
        return self.readable_end >= self.end

    def take(
        self,
        topic: str,
        answer: FetchedPart,
        payload: memoryview,
        *,
        read_committed: bool = True,
        expiry: Expiry | None = None,
    ) -> Iterator[StoredFrame]:
        """The frames of a response; the cursor is after them once all were taken.

        Frames that are left out are one frame at the beginning, or part of the frame before them.
        """
        self.note_end(answer, read_committed=read_committed)
        begun_at = self.offset
        aborted = AbortedFrames(answer.aborted)
        last: StoredFrame | None = None
        try:
            for position, header in split_frames(payload):
                is_hidden = aborted.hides(header)
                if header.next_offset <= self.offset:
                    continue
                start, self.offset = self.offset, header.next_offset
                if header.base_offset >= self.end:
                    continue
                if last is not None and is_hidden:
                    last = last._replace(end=self.offset)
                    continue
                if last is not None:
                    yield last
                last = StoredFrame(self, payload, position, header, start, self.offset, is_hidden, expiry)
            if last is not None:
                yield last
        except InvalidFrame as error:
            if last is not None:
                yield last
            # Damage after good frames: the next fetch begins there, and the broker says where the log continues.
            if self.offset == begun_at:
                raise _corrupt(topic, self.partition, error, self.offset) from None

    def note_end(self, answer: FetchedPart, *, read_committed: bool) -> None:
        """Everything stored below this can be read, or is a gap."""
        end = answer.last_stable if read_committed else answer.high_watermark
        self.readable_end = max(self.readable_end, end)

    def found_nothing(self) -> None:
        """The broker has nothing from here on: what is left below the known end is a gap."""
        if self.has_all_there_is_to_come:
            self.offset = max(self.offset, self.end)


def _corrupt(topic: str, partition: int, error: InvalidFrame, next_offset: int) -> CorruptData:
    return CorruptData(where=f"{topic}-{partition}", problem=error.message, next_offset=next_offset)
