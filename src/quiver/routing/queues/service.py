"""Queues: receives go to every owner of the topics, settlements to the owner of each partition."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from quiver.broker.broker import Broker
from quiver.links.peers import Peers
from quiver.model.errors import QuiverError, TopicNotFound
from quiver.model.queue import QueueSettings, ReceiveRequest
from quiver.model.settlement import Receipt, SettleRequest
from quiver.model.topic import Topic
from quiver.protocol.link_messages import link_error
from quiver.queues.receive import Received, given_back
from quiver.queues.service import ReceiptOutcome
from quiver.queues.state.keyed.reopening import LeveledRun
from quiver.queues.state.port import Refused, Settlement
from quiver.routing.owners import Owners
from quiver.routing.queues.receive import OwnedReceive, RoutedReceive
from quiver.routing.queues.requests import PauseUse, ReopenKey, ResumeUse, SettledOwned, SettleOwned, SettleReceipts
from quiver.structures.murmur2 import partition_for

T = TypeVar("T")


class RoutedQueues:
    def __init__(self, local: Broker, owners: Owners, peers: Peers) -> None:
        self._local, self._owners, self._peers = local, owners, peers
        self._catalogue = local.metadata.catalogue
        self._receive = RoutedReceive(OwnedReceive(local, peers), self.give_back_later, local.clock)

    def settings_of(self, topic_id: int, group: str) -> QueueSettings:
        return self._local.queues.settings_of(topic_id, group)

    # receiving

    async def receive(self, request: ReceiveRequest) -> list[Received]:
        request.check()
        topics = self._owned_topics(request)
        await self._local.groups.queue_group(request.group, request.ordering)  # once, not by each owner
        if list(topics) == [self._owners.worker]:
            return await self._local.queues.receive(request)
        return await self._receive.receive(request, topics)

    def _owned_topics(self, request: ReceiveRequest) -> dict[int, list[int]]:
        """By worker: the topics of which it owns partitions, or the partition of the key."""
        found: dict[int, list[int]] = {}
        for topic_id in dict.fromkeys(request.topic_ids):
            topic = self._catalogue.topic_by_id(topic_id)
            for worker in self._workers(topic, request.key):
                found.setdefault(worker, []).append(topic_id)
        return found

    def _workers(self, topic: Topic, key: bytes | None) -> Iterable[int]:
        count = topic.config.partitions
        if key is not None:
            return [self._owners.of(topic.name, partition_for(key, count))]
        return self._owners.of_topic(topic)

    async def give_back(self, received: Sequence[Received]) -> None:
        if received:
            await self.settle(given_back(received))

    def give_back_later(self, received: Sequence[Received]) -> None:
        by_worker: dict[int, list[Received]] = {}
        for one in received:
            by_worker.setdefault(self._owners.of(one.topic.name, one.run.partition), []).append(one)
        for worker, own in by_worker.items():
            if worker == self._owners.worker:
                self._local.queues.give_back_later(own)
            else:
                self._peers.tell(worker, SettleOwned(given_back(own)))

    # settling

    async def settle(self, parts: Sequence[SettleRequest]) -> list[Settlement]:
        """Each part at its owner; one that cannot be reached refuses its own parts, and they can be repeated."""
        by_worker = _split([self._worker_of(part) for part in parts], parts)
        if list(by_worker) == [self._owners.worker]:
            return await self._local.queues.settle(parts)
        settled = await asyncio.gather(*(self._settle_at(worker, own) for worker, own in by_worker.items()))
        return _in_order(len(parts), by_worker, settled)

    def _worker_of(self, part: SettleRequest) -> int:
        try:
            return self._owners.of_partition(part.topic_id, part.partition)
        except TopicNotFound:
            return self._owners.worker

    async def _settle_at(self, worker: int, placed: "Sequence[tuple[int, SettleRequest]]") -> list[Settlement]:
        parts = [part for _, part in placed]
        if worker == self._owners.worker:
            return await self._local.queues.settle(parts)
        try:
            reply = await self._peers.call(worker, SettleOwned(parts))
        except QuiverError as error:
            return [Settlement([Refused(*run, error) for run in part.runs]) for part in parts]
        return [_settlement(settled) for settled in reply.value]

    async def reopen(self, topic: Topic, partition: int, group: str, key: bytes, runs: Sequence[LeveledRun]) -> int:
        worker = self._owners.of_partition(topic.id, partition)
        if worker == self._owners.worker:
            return await self._local.queues.reopen(topic, partition, group, key, runs)
        return (await self._peers.call(worker, ReopenKey(topic.id, partition, group, key, list(runs)))).value

    async def settle_receipts(
        self,
        action: int,
        receipts: Sequence[Receipt],
        *,
        delay_ms: int | None = None,
        is_counted: bool = True,
        reason: str = "",
    ) -> list[ReceiptOutcome]:
        by_worker = _split([self._owners.of(receipt.topic, receipt.partition) for receipt in receipts], receipts)

        async def settle_at(worker: int, own: Sequence[Receipt]) -> list[ReceiptOutcome]:
            if worker == self._owners.worker:
                return await self._local.queues.settle_receipts(
                    action, own, delay_ms=delay_ms, is_counted=is_counted, reason=reason
                )
            request = SettleReceipts(action, list(own), delay_ms, is_counted, reason)
            try:
                reply = await self._peers.call(worker, request)
            except QuiverError as error:
                return [ReceiptOutcome(error, *receipt[:4]) for receipt in own]
            return [
                ReceiptOutcome(
                    None if settled.failed is None else link_error(settled.failed), *receipt[:4], *settled[1:]
                )
                for receipt, settled in zip(own, reply.value, strict=True)
            ]

        calls = (settle_at(worker, [receipt for _, receipt in placed]) for worker, placed in by_worker.items())
        return _in_order(len(receipts), by_worker, await asyncio.gather(*calls))

    # groups in topics

    async def pause(self, topic: str, group: str, reason: str = "") -> None:
        worker = self._owners.of(self._catalogue.topic(topic).name, 0)
        if worker == self._owners.worker:
            await self._local.queues.pause(topic, group, reason)
        else:
            await self._peers.call(worker, PauseUse(topic, group, reason))

    async def resume(self, topic: str, group: str) -> None:
        worker = self._owners.of(self._catalogue.topic(topic).name, 0)
        if worker == self._owners.worker:
            await self._local.queues.resume(topic, group)
        else:
            await self._peers.call(worker, ResumeUse(topic, group))


def _settlement(settled: SettledOwned) -> Settlement:
    refused = [
        Refused(start, end, link_error(failed), is_settled) for start, end, failed, is_settled in settled.refused
    ]
    return Settlement(refused, until_ms=settled.until_ms)


def _split(workers: Sequence[int], items: Sequence[T]) -> dict[int, list[tuple[int, T]]]:
    """Items by worker, each with its place."""
    found: dict[int, list[tuple[int, T]]] = {}
    for place, (worker, item) in enumerate(zip(workers, items, strict=True)):
        found.setdefault(worker, []).append((place, item))
    return found


def _in_order(
    count: int, by_worker: Mapping[int, Sequence[tuple[int, object]]], results: Sequence[Sequence[T]]
) -> list[T]:
    placed: dict[int, T] = {}
    for items, of_worker in zip(by_worker.values(), results, strict=True):
        placed.update(zip([place for place, _ in items], of_worker, strict=True))
    return [placed[place] for place in range(count)]
