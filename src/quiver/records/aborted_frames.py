"""Which frames readers of committed messages leave out. Pure."""

from collections.abc import Sequence

from quiver.records.header import FrameHeader


class AbortedFrames:
    """For the frames of one read, in the order of the log.

    Takes the aborted transactions that reach into it, as (producer id, first offset), by first offset: from there on
    the producer's transactional frames are aborted, up to its next control frame.
    """

    __slots__ = ("_begun_count", "_producers", "_transactions")

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._transactions = transactions
        self._begun_count = 0
        """How many of these transactions the frames so far have reached."""
        self._producers: set[int] = set()

    def hides(self, header: FrameHeader) -> bool:
        """Whether a frame has nothing for readers: control frames never have. Call it once per frame."""
        if self._begun_count < len(self._transactions):
            self._begin(header.base_offset)
        if header.is_control:
            self._producers.discard(header.producer_id)
            return True
        return bool(self._producers) and header.is_transactional and header.producer_id in self._producers

    def _begin(self, offset: int) -> None:
        while self._begun_count < len(self._transactions) and self._transactions[self._begun_count][1] <= offset:
            self._producers.add(self._transactions[self._begun_count][0])
            self._begun_count += 1
