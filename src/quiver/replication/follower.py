"""What a follower decides about messages of leaders: which to refuse, where its log is cut. Pure.

Messages may be lost, late, repeated and reordered.
"""

from typing import Literal, NamedTuple

Verdict = Literal["stale", "align", "take", "gap"]


class EpochEnd(NamedTuple):
    """The last epoch that has frames in a log, or the last one up to some epoch, and where its frames end."""

    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """Where a follower cuts its log."""

    offset: int
    is_aligned: bool
    """Its log is the beginning of the leader's. Otherwise it has to ask again, from this end on."""


def cut(own: EpochEnd, own_at_theirs: EpochEnd, theirs: EpochEnd) -> Cut:
    """`own` is the end of the follower's log, `theirs` the leader's largest epoch not above that one, and
    `own_at_theirs` the follower's largest epoch not above the leader's."""
    if theirs.epoch == own.epoch:
        return Cut(min(own.end_offset, theirs.end_offset), True)
    if own_at_theirs.epoch == theirs.epoch:
        return Cut(min(own_at_theirs.end_offset, theirs.end_offset), True)
    return Cut(own_at_theirs.end_offset, False)


class Follower:
    """`promise` first: a process takes part in a unit once it has read the unit's key."""

    def __init__(self) -> None:
        self.epoch = 0
        """The latest that it knows of."""
        self.aligned: set[int] = set()
        """In this epoch, by number: logs that are the beginning of their leader's."""

    def promise(self, epoch: int) -> bool:
        """Refuses everything older from now on. False for an epoch that is older itself."""
        if epoch < self.epoch:
            return False
        if epoch > self.epoch:
            self.epoch, self.aligned = epoch, set()
        return True

    def verdict(self, epoch: int, number: int, base: int, end_offset: int) -> Verdict:
        """On frames of an epoch that follow `base`, for a log with an end."""
        if not self.promise(epoch):
            return "stale"
        if number not in self.aligned:
            return "align"
        return "gap" if base > end_offset else "take"

    def align(self, epoch: int, number: int) -> None:
        """A log was cut where it leaves that of the leader of an epoch."""
        if epoch == self.epoch:
            self.aligned.add(number)
