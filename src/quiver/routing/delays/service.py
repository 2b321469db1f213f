"""Delayed messages: changes go to the owner of the partition, lists are put together from all of them."""

from collections.abc import Mapping, Sequence

from quiver.broker.broker import Broker
from quiver.delays.page import DelayEntry, PendingTotal
from quiver.delays.service import DelayedPage, delayed_page, the_one
from quiver.delays.stats import DelayStats
from quiver.links.peers import Peers
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
from quiver.routing.owners import Owners
from quiver.routing.scatter import Scatter


class RoutedDelays:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, scatter: Scatter) -> None:
        self._local, self._owners, self._peers, self._scatter = local, owners, peers, scatter
        self._delays = local.delays

    async def cancel(self, topic_name: str, partition: int, ids: Sequence[int]) -> set[int]:
        worker = self._owner(topic_name, partition)
        if worker == self._owners.worker:
            return await self._delays.cancel(topic_name, partition, ids)
        return set((await self._peers.call(worker, CancelDelayed(topic_name, partition, list(ids)))).value)

    async def reschedule(self, topic_name: str, partition: int, ids: Sequence[int], deliver_at_ms: int) -> set[int]:
        worker = self._owner(topic_name, partition)
        if worker == self._owners.worker:
            return await self._delays.reschedule(topic_name, partition, ids, deliver_at_ms)
        request = RescheduleDelayed(topic_name, partition, list(ids), deliver_at_ms)
        return set((await self._peers.call(worker, request)).value)

    async def get(self, topic_name: str, partition: int | None, id: int) -> DelayedMessage:
        request = FindDelayed(topic_name, partition, id)
        if partition is None:
            look = await self._scatter.look(request, lambda: self._delays.find(topic_name, None, id))
            found = [message for of_worker in look.complete() for message in of_worker]
        elif (worker := self._owner(topic_name, partition)) == self._owners.worker:
            found = await self._delays.find(topic_name, partition, id)
        else:
            found = (await self._peers.call(worker, request)).value
        return the_one(found, topic_name, partition, id)

    async def page(self, topic_name: str, *, skip: int, limit: int) -> DelayedPage:
        pending = _AllPending(self._local, self._scatter, self._local.topic(topic_name).id)
        total = sum((await pending.total()).counts.values())
        return await delayed_page(pending, total, skip=skip, limit=limit)

    async def stats(self) -> DelayStats:
        stats = DelayStats()
        for of_worker in (await self._scatter.look(DelayStatsOf(), self._delays.stats)).complete():
            stats.add(of_worker)
        return stats

    def _owner(self, topic_name: str, partition: int) -> int:
        return self._owners.of(self._local.topic(topic_name).name, partition)


class _AllPending:
    """What waits in the partitions of all workers."""

    def __init__(self, local: Broker, scatter: Scatter, topic_id: int) -> None:
        self._own, self._scatter, self._topic_id = local.delays.pending(topic_id), scatter, topic_id

    async def total(self) -> PendingTotal:
        totals = (await self._scatter.look(TotalPending(self._topic_id), self._own.total)).complete()
        counts = {number: count for total in totals for number, count in total.counts.items()}
        return PendingTotal(counts, max(total.last_ms for total in totals))

    async def counts_before(self, time_ms: int) -> dict[int, int]:
        request = PendingBefore(self._topic_id, time_ms)
        counts = (await self._scatter.look(request, lambda: self._own.counts_before(time_ms))).complete()
        return {number: count for of_worker in counts for number, count in of_worker.items()}

    async def slices(self, bounds: Mapping[int, tuple[int, int]]) -> list[DelayEntry]:
        request = PendingSlices(self._topic_id, dict(bounds))
        slices = (await self._scatter.look(request, lambda: self._own.slices(bounds))).complete()
        return [entry for of_worker in slices for entry in of_worker]
