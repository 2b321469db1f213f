"""What is asked of the owners of partitions about delayed messages."""

from quiver.delays.page import DelayEntry, PendingTotal
from quiver.delays.stats import DelayStats
from quiver.links.request import PeerRequest
from quiver.model.schedule import DelayedMessage


class CancelDelayed(PeerRequest[list[int]], frozen=True):
    capability, method = "delays", "cancel"
    topic: str
    partition: int
    ids: list[int]


class RescheduleDelayed(PeerRequest[list[int]], frozen=True):
    capability, method = "delays", "reschedule"
    topic: str
    partition: int
    ids: list[int]
    deliver_at_ms: int


class FindDelayed(PeerRequest[list[DelayedMessage]], frozen=True):
    """In one partition, or in all that the worker owns."""

    capability, method = "delays", "find"
    topic: str
    partition: int | None
    id: int


class TotalPending(PeerRequest[PendingTotal], frozen=True):
    capability, method = "delays", "total"
    topic_id: int


class PendingBefore(PeerRequest[dict[int, int]], frozen=True):
    capability, method = "delays", "counts_before"
    topic_id: int
    time_ms: int


class PendingSlices(PeerRequest[list[DelayEntry]], frozen=True):
    capability, method = "delays", "slices"
    topic_id: int
    bounds: dict[int, tuple[int, int]]


class DelayStatsOf(PeerRequest[DelayStats], frozen=True):
    capability, method = "delays", "stats"
