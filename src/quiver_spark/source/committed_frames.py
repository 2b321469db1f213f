"""Which frames readers of committed messages leave out."""

from collections.abc import Callable, Sequence

from quiver.records.header import FrameHeader

Aborted = Sequence[tuple[int, int]]
"""(producer id, first offset) of aborted transactions, by first offset."""


def committed_filter(aborted: Aborted) -> Callable[[FrameHeader], bool]:
    """Says of each frame, asked in the order of the log, whether its messages count.

    Control frames hold none. Frames of a producer in `aborted` do not count from the first offset on, as far as they
    belong to a transaction, up to the producer's next control frame.
    """
    waiting = list(reversed(aborted))
    hidden: set[int] = set()

    def counts(header: FrameHeader) -> bool:
        while waiting and waiting[-1][1] <= header.base_offset:
            hidden.add(waiting.pop()[0])
        if header.is_control:
            hidden.discard(header.producer_id)
            return False
        return not (header.is_transactional and header.producer_id in hidden)

    return counts
