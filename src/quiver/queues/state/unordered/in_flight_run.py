"""Messages that a group has been given and has not settled: a run with one history and one owner."""

from collections.abc import Iterable

import msgspec

from quiver.queues.state.port import Dead, Run, Taken
from quiver.structures.offset_ranges import joined

LEASED, EXPIRED, WAITING, RETURNED = 0, 1, 2, 3
"""Leased; its lease is over but it can still be settled; given back and not due; given back and due."""

LEASE_EXPIRED = "the lease expired"
"""The last error of a message whose consumer said nothing."""


class InFlightRun(msgspec.Struct, array_like=True, gc=False, eq=False):
    """Holds nothing that could point back to it, so the garbage collector need not look at millions of these."""

    start: int
    end: int
    level: int
    attempts: int
    """Deliveries that count, the current one included."""
    first_delivered_ms: int
    state: int
    time_ms: int
    """When the lease ends or ended, or when the run is or was due."""
    lease: int
    """The last one. It may be settled under it until somebody else gets it, unless it was given back."""
    consumer: str
    error: str = ""

    @property
    def can_be_settled(self) -> bool:
        return self.state <= EXPIRED

    @property
    def last_error(self) -> str:
        """As the next delivery shows it. On the journal an expired lease looks like one that still runs."""
        return self.error or (LEASE_EXPIRED if self.can_be_settled else "")

    def goes_on_in(self, other: "InFlightRun") -> bool:
        """Whether the other one follows in the same lease, with the same history."""
        return (
            self.end == other.start
            and self.attempts == other.attempts
            and self.first_delivered_ms == other.first_delivered_ms
            and self.level == other.level
            and self.error == other.error
        )

    def taken(self) -> Taken:
        return Taken(self.start, self.end, self.level, self.attempts, self.first_delivered_ms, self.error)

    def dead(self, reason: str, error: str) -> Dead:
        return Dead(self.start, self.end, self.level, self.attempts, self.first_delivered_ms, reason, error)

    def part(self, start: int, end: int) -> "InFlightRun":
        """A copy that stands for some of its messages."""
        return InFlightRun(
            start,
            end,
            self.level,
            self.attempts,
            self.first_delivered_ms,
            self.state,
            self.time_ms,
            self.lease,
            self.consumer,
            self.error,
        )


def runs_of(entries: Iterable[InFlightRun]) -> list[Run]:
    """Their offsets, with those that follow each other as one run."""
    return joined((entry.start, entry.end) for entry in entries)
