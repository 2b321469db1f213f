"""The leader epochs in which a log's frames were written. Pure: no I/O.

Compaction and retention remove frames, so the frames that are left do not tell where an epoch ended. A follower that
has to find out how far its log agrees with its leader's needs exactly that.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

ENTRIES_KEPT = 4096
"""A log gets an entry when a new epoch writes its first frame: at most one each time it gets a leader."""


class EpochStart(NamedTuple):
    epoch: int
    offset: int
    """The end of the epoch before: frames of earlier epochs are below it, frames of this epoch are not."""


class EpochHistory:
    """Ascending epochs with their offsets, oldest first. Immutable."""

    __slots__ = ("starts",)

    def __init__(self, starts: Iterable[EpochStart] = ()) -> None:
        self.starts = tuple(starts)

    @property
    def latest(self) -> int:
        """The last epoch, -1 when there is none."""
        return self.starts[-1].epoch if self.starts else -1

    def end_offset_of(self, epoch: int, *, start_offset: int, end_offset: int) -> int:
        """The offset after the last frame whose epoch is at most this one, of a log between two offsets.

        For epochs older than the history it is the start of the log: a follower that truncates to it keeps nothing
        that its leader may not have.
        """
        if not self.starts or epoch < self.starts[0].epoch:
            return start_offset
        for start in self.starts:
            if start.epoch > epoch:
                return max(start_offset, start.offset)
        return max(start_offset, end_offset)

    def begun(self, starts: Sequence[EpochStart], *, start_offset: int) -> "EpochHistory":
        """With new epochs at its end. An epoch that begins at the same offset has no frames and is left out."""
        new = [start for start in starts if start.epoch > self.latest]
        if not new:
            return self
        kept = [start for start in self.starts if start.offset < new[0].offset]
        return EpochHistory([*kept, *new])._without_front(start_offset)

    def truncated(self, offset: int) -> "EpochHistory":
        """The history of a log that ends at an offset."""
        return EpochHistory(start for start in self.starts if start.offset < offset)

    def _without_front(self, start_offset: int) -> "EpochHistory":
        """Without epochs that ended below the start of the log, except the last of them, which tells that they
        ended."""
        ended = sum(1 for following in self.starts[1:] if following.offset <= start_offset)
        return EpochHistory(self.starts[ended:][-ENTRIES_KEPT:])
