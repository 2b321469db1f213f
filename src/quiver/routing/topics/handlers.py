"""What this worker does for others about topics: changes if it is worker 0, and its part of what others change."""

from quiver.broker.broker import Broker
from quiver.links.request import DONE, Handlers, Reply
from quiver.routing.owned_request import add_owned
from quiver.routing.topics.requests import (
    TOPIC_CHANGES,
    Compact,
    Describe,
    Ended,
    Opened,
    OwnStats,
    Prepare,
    Purge,
    Stats,
    TakeBack,
)
from quiver.storage.port import Compacted
from quiver.topics.details import PartitionDetails


class TopicHandlers:
    def __init__(self, broker: Broker, handlers: Handlers) -> None:
        self._broker = broker
        add_owned(handlers, broker, TOPIC_CHANGES)
        handlers.add(Prepare, self._prepare)
        handlers.add(Opened, self._opened)
        handlers.add(Ended, self._ended)
        handlers.add(TakeBack, self._take_back)
        handlers.add(Purge, self._purge)
        handlers.add(Compact, self._compact)
        handlers.add(Describe, self._describe)
        handlers.add(Stats, self._stats)

    async def _prepare(self, request: Prepare, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.prepare(request.topic)
        return DONE

    async def _opened(self, request: Opened, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.opened(request.topic_id)
        return DONE

    async def _ended(self, request: Ended, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.ended(request.topic_id)
        return DONE

    async def _take_back(self, request: TakeBack, payload: memoryview) -> Reply[None]:
        await self._broker.topic_admin.take_back_prepared(request.topic_id)
        return DONE

    async def _purge(self, request: Purge, payload: memoryview) -> Reply[None]:
        await self._broker.purge_topic(request.name)
        return DONE

    async def _compact(self, request: Compact, payload: memoryview) -> Reply[dict[int, Compacted]]:
        done = await self._broker.compact_topic(request.name, request.partitions, dry_run=request.dry_run)
        return Reply(done.partitions)

    async def _describe(self, request: Describe, payload: memoryview) -> Reply[list[PartitionDetails]]:
        return Reply((await self._broker.describe(request.name)).partitions)

    async def _stats(self, request: Stats, payload: memoryview) -> Reply[OwnStats]:
        return Reply(await own_stats(self._broker))


async def own_stats(broker: Broker) -> OwnStats:
    """Of the partitions that a worker owns."""
    stats = await broker.stats()
    return OwnStats(stats.uptime_seconds, {details.topic.name: details.partitions for details in stats.topics})
