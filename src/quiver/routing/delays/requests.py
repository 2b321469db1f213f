"""What is asked of the owners of partitions about delayed messages."""

from quiver.broker.broker import Broker
from quiver.delays.page import DelayEntry, PendingTotal
from quiver.delays.stats import DelayStats
from quiver.model.schedule import DelayedMessage
from quiver.routing.owned_request import OwnedRequest


class CancelDelayed(OwnedRequest[list[int]], frozen=True):
    capability, method = "delays", "cancel"
    topic: str
    partition: int
    ids: list[int]

    async def carry_out(self, broker: Broker) -> list[int]:
        return sorted(await broker.delays.cancel(self.topic, self.partition, self.ids))


class RescheduleDelayed(OwnedRequest[list[int]], frozen=True):
    capability, method = "delays", "reschedule"
    topic: str
    partition: int
    ids: list[int]
    deliver_at_ms: int

    async def carry_out(self, broker: Broker) -> list[int]:
        moved = await broker.delays.reschedule(self.topic, self.partition, self.ids, self.deliver_at_ms)
        return sorted(moved)


class FindDelayed(OwnedRequest[list[DelayedMessage]], frozen=True):
    """In one partition, or in all that the worker owns."""

    capability, method = "delays", "find"
    topic: str
    partition: int | None
    id: int

    async def carry_out(self, broker: Broker) -> list[DelayedMessage]:
        return await broker.delays.find(self.topic, self.partition, self.id)


class TotalPending(OwnedRequest[PendingTotal], frozen=True):
    capability, method = "delays", "total"
    topic_id: int

    async def carry_out(self, broker: Broker) -> PendingTotal:
        return await broker.delays.pending(self.topic_id).total()


class PendingBefore(OwnedRequest[dict[int, int]], frozen=True):
    capability, method = "delays", "counts_before"
    topic_id: int
    time_ms: int

    async def carry_out(self, broker: Broker) -> dict[int, int]:
        return await broker.delays.pending(self.topic_id).counts_before(self.time_ms)


class PendingSlices(OwnedRequest[list[DelayEntry]], frozen=True):
    capability, method = "delays", "slices"
    topic_id: int
    bounds: dict[int, tuple[int, int]]

    async def carry_out(self, broker: Broker) -> list[DelayEntry]:
        return await broker.delays.pending(self.topic_id).slices(self.bounds)


class DelayStatsOf(OwnedRequest[DelayStats], frozen=True):
    capability, method = "delays", "stats"

    async def carry_out(self, broker: Broker) -> DelayStats:
        return await broker.delays.stats()


DELAY_REQUESTS = (
    CancelDelayed,
    RescheduleDelayed,
    FindDelayed,
    TotalPending,
    PendingBefore,
    PendingSlices,
    DelayStatsOf,
)
