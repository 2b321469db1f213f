"""The ports of transactions over links: other owners for worker 0, worker 0 for the others."""

import asyncio
from collections.abc import Callable, Sequence

from quiver.broker.broker import Broker
from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.links.request import PeerRequest, R
from quiver.model.errors import TopicNotFound
from quiver.model.transaction import GroupOffsetCommit
from quiver.partition.partition import Appended, Frame
from quiver.routing.owners import Owners
from quiver.routing.transactions.owner_requests import (
    AskOutcomes,
    CheckOffsets,
    FinishPart,
    Join,
    NextSequence,
    OpenInLogs,
    PreparePart,
    ReleasePart,
    SyncLogs,
)
from quiver.transactions.events import Participant
from quiver.transactions.owners.port import Finish, OpenInLog, Outcomes, Prepare, Question

Produce = Callable[[int, int, Frame], "asyncio.Future[Appended]"]
"""Passes a frame to the owner of its partition."""


class LinkedTransactionOwners:
    def __init__(self, owners: Owners, peers: Peers) -> None:
        self._owners, self._peers = owners, peers
        self.workers: Sequence[int] = [n for n in range(peers.workers) if n != peers.worker]

    def of_partition(self, topic_id: int, partition: int) -> int | None:
        try:
            return self._other(self._owners.of_partition(topic_id, partition))
        except TopicNotFound:
            return None

    def of_group(self, group: str) -> int | None:
        return self._other(self._owners.placement.group_worker(group))

    def _other(self, worker: int) -> int | None:
        return None if worker == self._owners.worker else worker

    async def opened(self, worker: int, term: int) -> list[OpenInLog]:
        return await self._call(worker, OpenInLogs(term))

    async def check_offsets(self, worker: int, groups: Sequence[GroupOffsetCommit]) -> None:
        await self._call(worker, CheckOffsets(list(groups)))

    async def prepare(self, worker: int, term: int, prepare: Prepare) -> None:
        await self._call(worker, PreparePart(term, prepare))

    async def release(self, worker: int, prepare: Prepare) -> None:
        await self._call(worker, ReleasePart(prepare))

    async def finish(self, worker: int, finish: Finish) -> bool:
        return await self._call(worker, FinishPart(finish))

    async def sync(self, worker: int, participants: Sequence[Participant]) -> bool:
        return await self._call(worker, SyncLogs(list(participants)))

    async def _call(self, worker: int, request: PeerRequest[R]) -> R:
        return (await self._peers.call(worker, request)).value


class LinkedCoordinator:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def join(self, producer_id: int, epoch: int, participant: Participant) -> int:
        return (await self._peers.call(CONTROLLER, Join(producer_id, epoch, participant))).value

    async def outcomes(self, question: Question) -> Outcomes:
        return (await self._peers.call(CONTROLLER, AskOutcomes(question))).value


class RoutedLogs:
    """Where worker 0 puts single messages of transactions: partitions of all workers."""

    def __init__(self, local: Broker, owners: Owners, peers: Peers, produce: Produce) -> None:
        self._local = local.transactions.publishing.own_logs
        self._owners, self._peers, self._produce = owners, peers, produce

    def write(self, topic_id: int, partition: int, frame: Frame) -> "asyncio.Future[Appended]":
        return self._produce(topic_id, partition, frame)

    async def next_sequence(self, topic_id: int, partition: int, producer_id: int, epoch: int) -> int:
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return await self._local.next_sequence(topic_id, partition, producer_id, epoch)
        return (await self._peers.call(worker, NextSequence(topic_id, partition, producer_id, epoch))).value
