"""What compaction must know of transactions: data that does not count, and markers that mark nothing any more."""

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
        """Whether a frame holds messages of a transaction that was aborted."""
        history = self._ranges.get(header.producer_id) if header.is_transactional else None
        if history is None or header.is_control:
            return False
        at = bisect_right(history, header.base_offset, key=lambda each: each.first_offset) - 1
        return at >= 0 and header.base_offset < history[at].marker_offset

    def has_marker(self, header: FrameHeader) -> bool:
        """Whether a control frame ends one of them. Readers that are told of the one look for the other."""
        return (header.producer_id, header.base_offset) in self._markers


class Markers:
    """Which markers still have data in front of them, along a run of frames.

    A marker goes with the pass that finds no data of its transaction any more, and so after the one that took it.
    """

    def __init__(self) -> None:
        self.with_data: set[int] = set()
        """Producers whose last frame so far was data."""
        self.undecided: dict[int, int] = {}
        """By producer, the row of its first marker when no data of it came before in this run."""
        self._seen: set[int] = set()

    def pass_data(self, header: FrameHeader) -> None:
        if header.is_transactional:
            self.with_data.add(header.producer_id)
            self._seen.add(header.producer_id)

    def pass_marker(self, header: FrameHeader, row: int) -> bool:
        """Whether the marker has data in this run; of a producer's first one that is not the last word."""
        producer = header.producer_id
        has_data = producer in self.with_data
        if not has_data and producer not in self._seen:
            self.undecided[producer] = row
            has_data = True
        self.with_data.discard(producer)
        self._seen.add(producer)
        return has_data
