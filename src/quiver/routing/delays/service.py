"""Delayed messages: changes go to the owner of the partition, lists are put together from all of them."""

from collections.abc import Mapping, Sequence

from quiver.broker.broker import Broker
from quiver.delays.page import DelayEntry, PendingTotal
from quiver.delays.service import DelayedPage, delayed_page, the_one
from quiver.delays.stats import DelayStats
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
from quiver.routing.owned_calls import OwnedCalls
from quiver.routing.owners import Owners


class RoutedDelays:
    def __init__(self, local: Broker, owners: Owners, calls: OwnedCalls) -> None:
        self._local, self._owners, self._calls = local, owners, calls

    async def cancel(self, topic_name: str, partition: int, ids: Sequence[int]) -> set[int]:
        request = CancelDelayed(topic_name, partition, list(ids))
        done = await self._calls.call(self._owner(topic_name, partition), request)
        return set(done)

    async def reschedule(self, topic_name: str, partition: int, ids: Sequence[int], deliver_at_ms: int) -> set[int]:
        request = RescheduleDelayed(topic_name, partition, list(ids), deliver_at_ms)
        done = await self._calls.call(self._owner(topic_name, partition), request)
        return set(done)

    async def get(self, topic_name: str, partition: int | None, id: int) -> DelayedMessage:
        request = FindDelayed(topic_name, partition, id)
        if partition is None:
            look = await self._calls.look(request)
            found = [message for of_worker in look.complete() for message in of_worker]
        else:
            found = await self._calls.call(self._owner(topic_name, partition), request)
        return the_one(found, topic_name, partition, id)

    async def page(self, topic_name: str, *, skip: int, limit: int) -> DelayedPage:
        pending = _AllPending(self._calls, self._local.topic(topic_name).id)
        total = sum((await pending.total()).counts.values())
        return await delayed_page(pending, total, skip=skip, limit=limit)

    async def stats(self) -> DelayStats:
        stats = DelayStats()
        for of_worker in (await self._calls.look(DelayStatsOf())).complete():
            stats.add(of_worker)
        return stats

    def _owner(self, topic_name: str, partition: int) -> int:
        return self._owners.of(self._local.topic(topic_name).name, partition)


class _AllPending:
    """What waits in the partitions of all workers."""

    def __init__(self, calls: OwnedCalls, topic_id: int) -> None:
        self._calls, self._topic_id = calls, topic_id

    async def total(self) -> PendingTotal:
        totals = (await self._calls.look(TotalPending(self._topic_id))).complete()
        counts = {number: count for total in totals for number, count in total.counts.items()}
        return PendingTotal(counts, max(total.last_ms for total in totals))

    async def counts_before(self, time_ms: int) -> dict[int, int]:
        counts = (await self._calls.look(PendingBefore(self._topic_id, time_ms))).complete()
        return {number: count for of_worker in counts for number, count in of_worker.items()}

    async def slices(self, bounds: Mapping[int, tuple[int, int]]) -> list[DelayEntry]:
        slices = (await self._calls.look(PendingSlices(self._topic_id, dict(bounds)))).complete()
        return [entry for of_worker in slices for entry in of_worker]
