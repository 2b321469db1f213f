"""Single messages in a transaction: one frame per message, with the producer's own sequences."""

import asyncio
from typing import Protocol

from quiver.messages.publish import Publish, Published, chosen_partition
from quiver.model.errors import PartitionNotFound
from quiver.model.message import NewMessage
from quiver.partition.partition import Appended, Frame
from quiver.partition.pending import check_times
from quiver.records.build import build_frame
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions
from quiver.transactions.coordinator import Coordinator
from quiver.transactions.events import Participant
from quiver.transactions.sent_sequences import SentSequences


class TransactionLogs(Protocol):
    """Where frames of transactions go, whoever owns the partition."""

    def write(self, topic_id: int, partition: int, frame: Frame) -> "asyncio.Future[Appended]":
        """Queued in the order of the calls."""
        ...

    async def next_sequence(self, topic_id: int, partition: int, producer_id: int, epoch: int) -> int:
        """For a producer that has nothing in flight there."""
        ...


class OwnLogs:
    """The partitions of this process."""

    def __init__(self, publish: Publish, partitions: Partitions) -> None:
        self._publish = publish
        self._partitions = partitions

    def write(self, topic_id: int, partition: int, frame: Frame) -> "asyncio.Future[Appended]":
        return self._publish.frame(topic_id, partition, frame)

    async def next_sequence(self, topic_id: int, partition: int, producer_id: int, epoch: int) -> int:
        return self._partitions.get(topic_id, partition).next_sequence(producer_id, epoch)


class TransactionPublishing:
    def __init__(
        self, coordinator: Coordinator, own_logs: OwnLogs, catalogue: TopicCatalogue, *, clock: Clock
    ) -> None:
        self._coordinator = coordinator
        self._catalogue = catalogue
        self._clock = clock
        self.own_logs = own_logs
        self.logs: TransactionLogs = own_logs
        """Set while the broker is built, if other processes own partitions."""

    def add_partition(self, producer_id: int, epoch: int, topic_name: str, partition: int) -> None:
        """Adds a partition before its first frame."""
        topic = self._catalogue.topic(topic_name)
        if not 0 <= partition < topic.config.partitions:
            raise PartitionNotFound(topic=topic_name, count=topic.config.partitions, partition=partition)
        self._coordinator.join(producer_id, epoch).participants[Participant(topic.id, partition)] = None

    async def publish(
        self, producer_id: int, epoch: int, topic_name: str, message: NewMessage, sequence: int | None
    ) -> Published:
        """Returns when the message is as durable as the topic requires. A sequence that was used before is a
        duplicate."""
        transaction = self._coordinator.join(producer_id, epoch)
        topic = self._catalogue.topic(topic_name)
        check_times(message)
        count = topic.config.partitions
        number = chosen_partition(topic, message, count)
        if number is None:  # the same partition for the whole transaction, so that a repeat is recognised
            number = (producer_id + epoch) % count
        is_delayed = message.deliver_at_ms is not None and message.deliver_at_ms > self._clock.now_ms()
        sequences = transaction.sent_sequences
        line = sequences.setdefault(Participant(topic.id, number, is_delayed), SentSequences(producer_id))
        if line.next_sequence is None and not is_delayed:
            async with line.asking:  # nothing is waited for where the partition is this process's own
                if line.next_sequence is None:
                    line.next_sequence = await self.logs.next_sequence(topic.id, number, producer_id, epoch)
        if (before := line.find(sequence)) is not None:
            appended = await asyncio.shield(before)
            return Published(number, appended.base_offset, duplicate=True, delayed=appended.delayed)
        frame = self._frame(message, is_delayed, producer_id, epoch, line.next_sequence or 0)
        if line.next_sequence is None:
            line.next_sequence = 0
        sent = self.logs.write(topic.id, number, frame)
        line.sent(sequence, sent)
        try:
            appended = await asyncio.shield(sent)
        except BaseException:
            if sent.done():
                line.failed(sequence)
            raise
        return Published(number, appended.base_offset, appended.duplicate, appended.delayed)

    def _frame(self, message: NewMessage, is_delayed: bool, producer_id: int, epoch: int, sequence: int) -> bytearray:
        now_ms = self._clock.now_ms()
        return build_frame(
            [message.value],
            keys=[message.key],
            timestamp_ms=now_ms if message.timestamp_ms is None else message.timestamp_ms,
            headers=[message.headers],
            deliver_at_ms=[message.deliver_at_ms if is_delayed else None],
            expires_at_ms=[message.expires_at_ms],
            ids=[message.id],
            priority=message.priority,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
