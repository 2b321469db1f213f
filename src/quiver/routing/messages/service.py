"""Messages: each call goes to the owner of its partition."""

import asyncio
from collections.abc import Sequence

from quiver.broker.broker import Broker
from quiver.cluster.placement import CONTROLLER
from quiver.links.peers import Peers
from quiver.messages.browse import BrowseRequest, MessagePage, message_size
from quiver.messages.publish import Published, PublishFuture, outcome_of
from quiver.model.errors import QuiverError
from quiver.model.message import NewMessage
from quiver.model.position import Position
from quiver.model.topic import Topic
from quiver.partition.partition import Appended, Frame
from quiver.routing.futures import value_of
from quiver.routing.messages.own_partitions import OwnPartitions
from quiver.routing.messages.requests import (
    ChosenMessage,
    FindId,
    FindOffset,
    InitProducer,
    Produce,
    Read,
    WasGiven,
)
from quiver.routing.messages.single_messages import SingleMessages
from quiver.routing.owners import Owners
from quiver.routing.transactions.passed_on import PassedOnFrames

_MESSAGES_PER_TURN = 500


class RoutedMessages:
    def __init__(self, local: Broker, owners: Owners, peers: Peers, passed_on: PassedOnFrames) -> None:
        self._local, self._owners, self._peers = local, owners, peers
        self._passed_on = passed_on
        self._single = SingleMessages(peers)
        self._own_partitions = OwnPartitions(owners.placement)
        if not owners.placement.is_controller:
            local.producer_contacts.ask = self._was_given

    def produce(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0, alone: bool = False
    ) -> "asyncio.Future[Appended]":
        """Queued before it returns, here or on the link: frames of one connection stay in order."""
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return self._local.produce(topic_id, partition, frame, partition_count=partition_count, alone=alone)
        request = Produce(topic_id, partition, partition_count, alone)
        appended = value_of(self._peers.begin(worker, request, (frame,)))
        self._passed_on.note(topic_id, partition, frame, appended)
        return appended

    def begin_publish(self, topic_name: str, message: NewMessage) -> PublishFuture | QuiverError:
        self._local.check_running()
        topic = self._local.publishing.topic(topic_name)
        if message.partition is None and message.key is None and message.id is None:
            number = self._own_partitions.next(topic)
            if number is not None:
                return self._local.publishing.begin_at(topic, number, message)
        return self._begin(topic, message)

    def _begin(self, topic: Topic, message: NewMessage) -> PublishFuture | QuiverError:
        publishing = self._local.publishing
        number = publishing.choose(topic, message)
        worker = self._owners.placement.partition_worker(topic.name, number)
        if worker == self._owners.worker:
            return publishing.begin_at(topic, number, message)
        return PublishFuture(number, self._single.begin(worker, ChosenMessage(topic.id, number, message)))

    async def publish(self, topic: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        """Of one client: those that may go anywhere use all partitions."""
        begun: list[PublishFuture | QuiverError] = []
        for number, message in enumerate(messages, 1):
            try:
                self._local.check_running()
                begun.append(self._begin(self._local.publishing.topic(topic), message))
            except QuiverError as error:
                if not begun:  # there is no such topic
                    raise
                begun.append(error)
            if not number % _MESSAGES_PER_TURN:
                await asyncio.sleep(0)
        return [await outcome_of(each) for each in begun]

    async def find_offset(
        self, topic_id: int, partition: int, position: Position, *, read_committed: bool = True
    ) -> int:
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return await self._local.find_offset(topic_id, partition, position, read_committed=read_committed)
        request = FindOffset(topic_id, partition, position, read_committed)
        return (await self._peers.call(worker, request)).value

    async def find_id(self, topic_id: int, partition: int, id: bytes) -> int | None:
        worker = self._owners.of_partition(topic_id, partition)
        if worker == self._owners.worker:
            return await self._local.find_id(topic_id, partition, id)
        return (await self._peers.call(worker, FindId(topic_id, partition, id))).value

    async def read(self, topic: str, partition: int, request: BrowseRequest) -> MessagePage:
        worker = self._owners.placement.partition_worker(self._local.topic(topic).name, partition)
        if worker == self._owners.worker:
            return await self._local.read_messages(topic, partition, request)
        asked = Read(
            topic,
            partition,
            request.offset,
            request.limit,
            request.from_time_ms,
            request.to_time_ms,
            request.read_committed,
            request.include_expired,
            request.max_bytes,
        )
        page = (await self._peers.call(worker, asked)).value
        if request.hold is not None:
            request.hold(sum(map(message_size, page.messages)))
        return page

    async def init_producer(self, producer_id: int, epoch: int) -> tuple[int, int]:
        if self._owners.placement.is_controller:
            return await self._local.init_producer(producer_id, epoch)
        return (await self._peers.call(CONTROLLER, InitProducer(producer_id, epoch))).value

    async def _was_given(self, producer_id: int, epoch: int) -> bool:
        return (await self._peers.call(CONTROLLER, WasGiven(producer_id, epoch))).value
