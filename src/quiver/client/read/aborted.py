"""Which frames of a slice are not for readers. Pure."""

from collections.abc import Sequence

from quiver.records.header import FrameHeader


class Aborted:
    """For the frames of one answer, in their order.

    Takes the aborted transactions that reach into it, as (producer id, first offset) by first offset: from there on
    the producer's transactional frames do not count, up to its next control frame.
    """

    __slots__ = ("_began", "_producers", "_transactions")

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._transactions = transactions
        self._began = 0
        """How many of them the frames so far have reached."""
        self._producers: set[int] = set()

    def hides(self, header: FrameHeader) -> bool:
        """Whether a frame is left out; each frame is asked for once."""
        if self._began < len(self._transactions):
            self._begin(header.base_offset)
        if header.is_control:
            self._producers.discard(header.producer_id)
            return True
        return bool(self._producers) and header.is_transactional and header.producer_id in self._producers

    def _begin(self, offset: int) -> None:
        while self._began < len(self._transactions) and self._transactions[self._began][1] <= offset:
            self._producers.add(self._transactions[self._began][0])
            self._began += 1
