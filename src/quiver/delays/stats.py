"""Counts of delayed messages, over partitions and over processes."""

import msgspec

from quiver.delays.partition.due_moves import DueMoves, Lateness
from quiver.delays.state import Totals


class DelayStats(msgspec.Struct):
    pending: int = 0
    scheduled: int = 0
    delivered: int = 0
    cancelled: int = 0
    expired: int = 0
    lost: int = 0
    delay_ms: int = 0
    """The delays of the messages delivered since the broker started, added up; so is the lateness."""
    latest_ms: int = 0
    late_counts: list[int] = msgspec.field(default_factory=lambda: Lateness().counts)
    """As in `Lateness`."""
    waiting_by_topic: dict[str, int] = msgspec.field(default_factory=dict)
    """Topics without any are left out."""

    @property
    def lateness(self) -> Lateness:
        lateness = Lateness()
        lateness.add_counts(self.late_counts, self.latest_ms)
        return lateness

    @property
    def average_delay_ms(self) -> float:
        return self.delay_ms / max(1, sum(self.late_counts))

    def add_partition(self, totals: Totals, pending: int, moves: DueMoves) -> None:
        self.pending += pending
        for name in ("scheduled", "delivered", "cancelled", "expired", "lost"):
            setattr(self, name, getattr(self, name) + getattr(totals, name))
        self.delay_ms += moves.delay_ms_total
        self._add_lateness(moves.lateness.counts, moves.lateness.max_ms)

    def add(self, other: "DelayStats") -> None:
        """Of another process."""
        for name in ("pending", "scheduled", "delivered", "cancelled", "expired", "lost", "delay_ms"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._add_lateness(other.late_counts, other.latest_ms)
        for topic, waiting in other.waiting_by_topic.items():
            self.waiting_by_topic[topic] = self.waiting_by_topic.get(topic, 0) + waiting

    def _add_lateness(self, counts: list[int], max_ms: int) -> None:
        self.latest_ms = max(self.latest_ms, max_ms)
        self.late_counts = [mine + theirs for mine, theirs in zip(self.late_counts, counts, strict=True)]
