"""The owners of partitions, as the owner of a group asks them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from quiver.links.peers import Peers
from quiver.links.request import PeerRequest
from quiver.model.errors import QuiverError, TopicNotFound, WorkerUnavailable
from quiver.model.names import TopicPartition
from quiver.model.position import Position
from quiver.routing.owners import Owners
from quiver.routing.polling.linked_takes import LinkedTakes
from quiver.routing.polling.linked_watch import LinkedWatch
from quiver.routing.repeated import call_again
from quiver.routing.scatter import LOOK_SECONDS
from quiver.routing.streams.partition_requests import Ends, Facts, Find, Follow
from quiver.streams.owners.own import OwnPartitions
from quiver.streams.owners.port import (
    Claim,
    Commit,
    NewsWatch,
    PartitionFacts,
    PartToTake,
    PolledPartition,
    TakenMessages,
)

logger = logging.getLogger(__name__)

_LOOK_SECONDS = LOOK_SECONDS / 2
"""Whoever looks at a group may be waiting for this worker."""
T = TypeVar("T")
ByPartition = dict[TopicPartition, T]


class LinkedPartitions:
    def __init__(self, own: OwnPartitions, owners: Owners, peers: Peers, takes: LinkedTakes) -> None:
        self._own, self._owners, self._peers, self._takes = own, owners, peers, takes

    async def ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._ask(partitions, Ends, self._own.ends)

    async def facts(
        self,
        group_id: int,
        commits: Mapping[TopicPartition, Commit | None],
        *,
        with_age: bool = False,
        is_look: bool = False,
    ) -> dict[TopicPartition, PartitionFacts]:
        def request(places: list[TopicPartition]) -> Facts:
            return Facts(group_id, [(place, commits[place]) for place in places], with_age)

        async def own(places: list[TopicPartition]) -> ByPartition[PartitionFacts]:
            return await self._own.facts(group_id, {place: commits[place] for place in places}, with_age=with_age)

        return await self._ask(commits, request, own, _LOOK_SECONDS if is_look else None)

    async def find(self, partitions: Collection[TopicPartition], position: Position) -> dict[TopicPartition, int]:
        return await self._ask(
            partitions, lambda places: Find(places, position), lambda places: self._own.find(places, position)
        )

    async def follow(self, group_id: int, commits: Mapping[TopicPartition, Commit]) -> None:
        """Own partitions have followed when the commits were applied."""
        others = self._by_worker(commits)
        others.pop(self._owners.worker, None)

        async def tell(worker: int) -> None:
            told = [(place, commits[place]) for place in others[worker]]
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._peers.call(worker, Follow(group_id, told))
            except (QuiverError, TimeoutError) as error:
                logger.info("worker %d learns later what group %d has committed: %s", worker, group_id, error)

        await asyncio.gather(*map(tell, others))

    async def take(
        self, claim: Claim, parts: Sequence[PartToTake], *, limit: int, max_bytes: int, taken: TakenMessages
    ) -> None:
        """One owner after the other, in the order of the partitions that each is asked for first."""
        by_place = {part.partition: part for part in parts}
        for worker, places in self._by_worker(by_place).items():
            if limit <= 0 or max_bytes <= 0:
                break
            before, asked = len(taken.polled), [by_place[place] for place in places]
            take = self._own.take if worker == self._owners.worker else self._takes.at(worker)
            await take(claim, asked, limit=limit, max_bytes=max_bytes, taken=taken)
            for one in (one for part in taken.polled[before:] for one in part.received):
                limit -= one.run.end - one.run.start
                max_bytes -= len(one.run.frame)

    async def give_back(self, polled: Sequence[PolledPartition]) -> None:
        await self._takes.give_back(polled)

    def watch(self, group_id: int, partitions: Collection[TopicPartition]) -> NewsWatch:
        by_worker = self._by_worker(partitions)
        own = self._own.watch(group_id, by_worker.pop(self._owners.worker, []))
        return LinkedWatch(own, self._peers, group_id, by_worker) if by_worker else own

    def _by_worker(self, partitions: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Those of topics that are gone are left out."""
        found: dict[int, list[TopicPartition]] = {}
        for place in partitions:
            try:
                worker = self._owners.of_partition(*place)
            except TopicNotFound:
                continue
            found.setdefault(worker, []).append(place)
        return found

    async def _ask(
        self,
        partitions: Collection[TopicPartition],
        request: Callable[[list[TopicPartition]], PeerRequest[Any]],
        own: Callable[[list[TopicPartition]], Awaitable[ByPartition[T]]],
        seconds: float | None = None,
    ) -> ByPartition[T]:
        """All owners at the same time."""
        by_worker = self._by_worker(partitions)

        async def ask(worker: int) -> ByPartition[T]:
            places = by_worker[worker]
            if worker == self._owners.worker:
                return await own(places)
            try:
                async with asyncio.timeout(seconds):
                    return dict(await call_again(self._peers, worker, request(places)))
            except TimeoutError:
                raise WorkerUnavailable(worker=worker, problem=f"has not responded within {seconds} s") from None

        if len(by_worker) == 1:
            [worker] = by_worker
            return await ask(worker)
        answers = await asyncio.gather(*map(ask, by_worker))
        return {place: value for answer in answers for place, value in answer.items()}
