"""What compaction must know about transactions: aborted data, and markers without data."""

from bisect import bisect_right
from collections.abc import Iterable

from quiver.log.compaction.job import AbortedRange
from quiver.records.header import FrameHeader


class AbortedData:
    def __init__(self, ranges: Iterable[AbortedRange]) -> None:
        self._ranges: dict[int, list[AbortedRange]] = {}
        for aborted in sorted(ranges, key=lambda each: each.first_offset):
            self._ranges.setdefault(aborted.producer_id, []).append(aborted)
        self._markers = {(each.producer_id, each.marker_offset) for each in ranges}

    def has_data(self, header: FrameHeader) -> bool:
        """Whether a frame has messages of a transaction that was aborted."""
        history = self._ranges.get(header.producer_id) if header.is_transactional else None
        if history is None or header.is_control:
            return False
        at = bisect_right(history, header.base_offset, key=lambda each: each.first_offset) - 1
        return at >= 0 and header.base_offset < history[at].marker_offset

    def has_marker(self, header: FrameHeader) -> bool:
        """Whether a control frame ends one of them. Readers that are told of an aborted transaction look for its
        marker."""
        return (header.producer_id, header.base_offset) in self._markers


class Markers:
    """Which markers still have data before them, along a run of frames.

    A marker is removed by the pass that finds no data of its transaction: one pass after the data was removed.
    """

    def __init__(self) -> None:
        self.with_data: set[int] = set()
        """Producers whose last frame so far was data."""
        self.undecided: dict[int, int] = {}
        """By producer, the row of its first marker if none of its data came before in this run."""
        self._seen: set[int] = set()

    def pass_data(self, header: FrameHeader) -> None:
        if header.is_transactional:
            self.with_data.add(header.producer_id)
            self._seen.add(header.producer_id)

    def pass_marker(self, header: FrameHeader, row: int) -> bool:
        """Whether the marker has data in this run; for a producer's first marker, earlier runs may still have
        data."""
        producer = header.producer_id
        has_data = producer in self.with_data
        if not has_data and producer not in self._seen:
            self.undecided[producer] = row
            has_data = True
        self.with_data.discard(producer)
        self._seen.add(producer)
        return has_data
