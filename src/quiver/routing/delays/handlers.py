"""What this worker does with its delayed messages for others."""

from quiver.broker.broker import Broker
from quiver.delays.page import DelayEntry, PendingTotal
from quiver.delays.stats import DelayStats
from quiver.links.request import Handlers, Reply
from quiver.model.schedule import DelayedMessage
from quiver.routing.delays.requests import (
    CancelDelayed,
    DelayStatsOf,
    FindDelayed,
    PendingBefore,
    PendingSlices,
    RescheduleDelayed,
    TotalPending,
)


class DelayHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._delays = broker.delays
        handlers.add(CancelDelayed, self._cancel)
        handlers.add(RescheduleDelayed, self._reschedule)
        handlers.add(FindDelayed, self._find)
        handlers.add(TotalPending, self._total)
        handlers.add(PendingBefore, self._counts_before)
        handlers.add(PendingSlices, self._slices)
        handlers.add(DelayStatsOf, self._stats)

    async def _cancel(self, request: CancelDelayed, payload: memoryview) -> Reply[list[int]]:
        return Reply(sorted(await self._delays.cancel(request.topic, request.partition, request.ids)))

    async def _reschedule(self, request: RescheduleDelayed, payload: memoryview) -> Reply[list[int]]:
        moved = await self._delays.reschedule(request.topic, request.partition, request.ids, request.deliver_at_ms)
        return Reply(sorted(moved))

    async def _find(self, request: FindDelayed, payload: memoryview) -> Reply[list[DelayedMessage]]:
        return Reply(await self._delays.find(request.topic, request.partition, request.id))

    async def _total(self, request: TotalPending, payload: memoryview) -> Reply[PendingTotal]:
        return Reply(await self._delays.pending(request.topic_id).total())

    async def _counts_before(self, request: PendingBefore, payload: memoryview) -> Reply[dict[int, int]]:
        return Reply(await self._delays.pending(request.topic_id).counts_before(request.time_ms))

    async def _slices(self, request: PendingSlices, payload: memoryview) -> Reply[list[DelayEntry]]:
        return Reply(await self._delays.pending(request.topic_id).slices(request.bounds))

    async def _stats(self, request: DelayStatsOf, payload: memoryview) -> Reply[DelayStats]:
        return Reply(await self._delays.stats())
