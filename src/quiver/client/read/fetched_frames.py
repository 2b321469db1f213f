"""What one fetch of stored frames returned. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from quiver.client.read.isolation import READ_COMMITTED, is_committed
from quiver.records.aborted_frames import AbortedFrames
from quiver.records.header import FrameHeader
from quiver.records.read import split_frames, split_headers


class FetchedFrames(NamedTuple):
    """Whole frames of one partition, as they are stored, from the one with the fetched offset on.

    The buffer is empty when there is nothing to read from that offset on. Frame bodies are not checked yet.
    """

    buffer: memoryview
    log_start: int
    """The first offset that retention has kept."""
    high_watermark: int
    """The next offset to be written."""
    last_stable: int
    """Where the first open transaction begins; the high watermark when none is open."""
    aborted: Sequence[tuple[int, int]]
    """(producer id, first offset) of aborted transactions that reach into the buffer, by first offset."""
    headers_only: bool = False
    """Whether the buffer has the headers of the frames without their bodies."""

    def readable_end(self, isolation: str = READ_COMMITTED) -> int:
        """Every stored message below this offset can be read."""
        return self.last_stable if is_committed(isolation) else self.high_watermark

    def headers(self) -> Iterator[tuple[int, FrameHeader, bool]]:
        """For each frame: its position in the buffer, its header, and whether readers see it.

        Control frames and frames of aborted transactions are hidden. Raises InvalidFrame at the first damaged header.
        """
        aborted = AbortedFrames(self.aborted)
        found = split_headers(self.buffer) if self.headers_only else split_frames(self.buffer)
        for position, header in found:
            yield position, header, not aborted.hides(header)
