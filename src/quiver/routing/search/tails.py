"""Live tails: each owner follows its own partitions, and what comes first is shown first."""

import asyncio
from collections.abc import AsyncGenerator

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.model.errors import PartitionNotFound, SearchNotFound, ShuttingDown, WorkerUnavailable
from quiver.model.topic import Topic
from quiver.routing.owners import Owners
from quiver.routing.search.requests import CloseTail, NextPart, OpenTail
from quiver.search.tail import TailPart, TailRequest

_AGAIN_SECONDS = 0.1


class RoutedTails:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers

    async def follow(self, request: TailRequest) -> AsyncGenerator[TailPart, None]:
        """As that of one worker; each owner shows its share of the rate. What comes while an owner is being replaced
        is left out."""
        topic = self._local.topic(request.topic)
        count = topic.config.partitions
        if request.partition is not None and not 0 <= request.partition < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=request.partition)
        workers = self._workers(topic, request)
        shared = request._replace(rate=-(-request.rate // len(workers)))
        sources = [
            await self._local.tails.follow(shared) if worker == self._owners.worker else self._remote(worker, shared)
            for worker in workers
        ]
        return _joined(sources)

    def _workers(self, topic: Topic, request: TailRequest) -> list[int]:
        """All of them, unless one partition is followed: a topic may get more partitions."""
        if request.partition is None:
            return list(range(self._peers.workers))
        return [self._owners.placement.partition_worker(topic.name, request.partition)]

    async def _remote(self, worker: int, request: TailRequest) -> AsyncGenerator[TailPart, None]:
        where = None if request.where is None else request.where.text
        asked = OpenTail(request.topic, where, request.rate, request.partition)
        while True:
            try:
                tail = (await self._peers.call(worker, asked)).value
                yield TailPart([])
                try:
                    while True:
                        yield (await self._peers.call(worker, NextPart(tail))).value
                finally:
                    self._peers.tell(worker, CloseTail(tail))
            except (WorkerUnavailable, ShuttingDown, SearchNotFound):
                self._local.check_running()
                await asyncio.sleep(_AGAIN_SECONDS)


async def _joined(sources: list[AsyncGenerator[TailPart, None]]) -> AsyncGenerator[TailPart, None]:
    """A source is asked for its next part when the one before was taken."""
    asked: dict[asyncio.Task[TailPart], AsyncGenerator[TailPart, None]] = {}
    for source in sources:
        await anext(source)  # the first part is empty: it says that this one follows
    yield TailPart([])
    try:
        idle = sources
        while True:
            for source in idle:
                asked[asyncio.get_running_loop().create_task(_next(source))] = source
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            idle = [asked.pop(task) for task in done]
            for task in done:
                yield task.result()
    finally:
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        for source in sources:
            await source.aclose()


async def _next(source: AsyncGenerator[TailPart, None]) -> TailPart:
    return await anext(source)
