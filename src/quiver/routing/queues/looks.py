"""Depths, leases and statistics of queues, put together from what their owners say.

The owner of partition 0 knows which groups use a topic. A worker that does not respond fails the look: without its
part, the numbers would be wrong.
"""

from collections.abc import Awaitable, Callable

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.queues.depth import QueueDepth
from quiver.queues.leases import HeldKey, HeldLease, LeaseCursor, LeasePage, merged_leases
from quiver.queues.stats import Priorities, Reliability, merged_priorities, merged_reliability
from quiver.routing.owners import Owners
from quiver.routing.queues.requests import (
    DepthsOf,
    GroupsUsing,
    LeaseOf,
    LeasesOf,
    LeasesOfKey,
    OwnedDepths,
    PrioritiesOf,
    ReliabilityOf,
    UsingOf,
)
from quiver.routing.scatter import Scatter


class QueueUses:
    """Which groups use a topic: the owner of its partition 0 is asked."""

    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers

    async def of(self, topic: str, only: str | None = None) -> list[str]:
        """All of them, by name; or one, or GroupNotFound."""
        worker = self._owners.of(self._local.topic(topic).name, 0)
        if worker == self._owners.worker:
            return await self._local.queue_depths.groups_using(topic, only)
        return (await self._peers.call(worker, GroupsUsing(topic, only))).value


class RoutedDepths:
    def __init__(self, local: Broker, uses: QueueUses, scatter: Scatter) -> None:
        self._local, self._uses, self._scatter = local, uses, scatter

    async def of_all(self, topic: str) -> list[QueueDepth]:
        return await self._depths(topic, await self._uses.of(topic))

    async def of(self, topic: str, group: str) -> QueueDepth:
        [depth] = await self._depths(topic, await self._uses.of(topic, group))
        return depth

    async def _depths(self, topic: str, groups: list[str]) -> list[QueueDepth]:
        depths, found = self._local.queue_depths, self._local.topic(topic)

        async def own() -> OwnedDepths:
            return OwnedDepths(*await depths.owned(topic, groups))

        owned = (await self._scatter.look(DepthsOf(topic, groups), own)).complete()
        delayed = sum(each.delayed for each in owned)
        return [
            depths.of_parts(found, group, [part for each in owned for part in each.parts.get(group, ())], delayed)
            for group in groups
        ]


class RoutedLeases:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, uses: QueueUses, scatter: Scatter) -> None:
        self._leases, self._owners, self._peers = local.queue_leases, owners, peers
        self._uses, self._scatter = uses, scatter

    async def page(self, topic: str, group: str, *, limit: int, after: LeaseCursor | None = None) -> LeasePage:
        await self._uses.of(topic, group)
        request = LeasesOf(topic, group, limit, after)
        pages = await self._look(request, lambda: self._leases.owned(topic, group, limit=limit, after=after))
        return merged_leases(pages, limit)

    async def of_key(self, topic_id: int, group_id: int, key: bytes, *, with_runs: bool = False) -> list[HeldKey]:
        request = LeasesOfKey(topic_id, group_id, key, with_runs)
        held = await self._look(request, lambda: self._leases.of_key(topic_id, group_id, key, with_runs=with_runs))
        return [each for of_worker in held for each in of_worker]

    async def of_lease(self, topic_id: int, partition: int, group_id: int, lease_id: int) -> HeldLease | None:
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return await self._leases.of_lease(topic_id, partition, group_id, lease_id)
        return (await self._peers.call(worker, LeaseOf(topic_id, partition, group_id, lease_id))).value

    async def _look(self, request: PeerRequest[R], own: Callable[[], Awaitable[R]]) -> list[R]:
        return (await self._scatter.look(request, own)).complete()


class RoutedQueueStats:
    def __init__(self, local: Broker, scatter: Scatter) -> None:
        self._stats, self._scatter = local.queue_stats, scatter

    async def reliability(self) -> Reliability:
        return merged_reliability((await self._scatter.look(ReliabilityOf(), self._stats.reliability)).complete())

    async def priorities(self, only: str | None = None) -> Priorities:
        known = (await self._scatter.look(UsingOf(only), lambda: self._stats.using(only))).complete()
        using = {topic: ids for of_worker in known for topic, ids in of_worker.items()}
        look = await self._scatter.look(PrioritiesOf(only, using), lambda: self._stats.priorities(only, using))
        return merged_priorities(look.complete())
