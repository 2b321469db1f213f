"""Publish: frames from native clients, and single messages, which share frames."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import msgspec

from quiver.messages.producer_contacts import ProducerContacts
from quiver.model.errors import (
    InvalidFrame,
    InvalidRequest,
    NotSupported,
    PartitionNotFound,
    QuiverError,
    StalePartitionCount,
)
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.partition.partition import Appended, Frame, Partition
from quiver.partition.producers import FIRST_RELAY_ID
from quiver.records.check import KEY_NEEDED, check_frame
from quiver.records.header import COLUMN_DELIVER_AT, CONTROL, ENCRYPTED, NO_PRODUCER, TRANSACTIONAL, FrameHeader
from quiver.structures.murmur2 import partition_for
from quiver.system.clock import Clock
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_STICKY_MESSAGES = 100
_PARTITIONS_AT_ONCE = 8


class Published(NamedTuple):
    partition: int
    offset: int
    duplicate: bool = False
    delayed: bool = False
    """The message waits until it is due, and the offset is its id among the delayed messages."""
    buffered: bool = False
    """It is in the broker's local buffer, and gets the offset when the database is back."""


class PublishFuture(NamedTuple):
    """A message that is queued in its partition."""

    partition: int
    future: "asyncio.Future[Appended]"

    def outcome(self) -> Published | QuiverError:
        """Once the future is done."""
        try:
            appended = self.future.result()
        except QuiverError as error:
            return error
        except Exception:
            logger.exception("a message was not published")
            return QuiverError()
        return Published(
            self.partition, appended.base_offset, appended.duplicate, appended.delayed, appended.buffered
        )


class DelayedMessages(Protocol):
    """Where messages wait until they are due."""

    def schedule_frame(
        self, topic: Topic, number: int, frame: Frame, header: FrameHeader
    ) -> "asyncio.Future[Appended]": ...

    def schedule_message(self, topic: Topic, number: int, message: NewMessage) -> "asyncio.Future[Appended]": ...


class ProducerTransactions(Protocol):
    """What is part of the transactions that are open."""

    def write(
        self, header: FrameHeader, topic_id: int, partition: int, append: "Callable[[], asyncio.Future[Appended]]"
    ) -> "asyncio.Future[Appended]":
        """Makes a frame part of its producer's transaction and queues it by `append`, now or when the transaction has
        taken the partition in; frames of one producer for one partition in the order of the calls.

        The transaction does not end before the frame is written or refused.
        """
        ...


class Publish:
    def __init__(
        self,
        catalogue: TopicCatalogue,
        partitions: Partitions,
        delays: DelayedMessages,
        transactions: ProducerTransactions,
        producers: ProducerContacts,
        *,
        clock: Clock,
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._delays = delays
        self._transactions = transactions
        self._producers = producers
        self._clock = clock
        self._sticky: dict[int, int] = {}
        """The number of messages without a key so far, per topic."""
        self.refused: dict[str, int] = {}
        """What was refused before its partition was known, by error code."""

    def frame(
        self, topic_id: int, partition: int, frame: Frame, *, partition_count: int = 0, alone: bool = False
    ) -> "asyncio.Future[Appended]":
        """Checks a frame and queues it before it returns, so that calls made in order are written in order.

        `alone`: the caller does not wait for other replicas. That holds for frames of no producer that are stored at
        once; others are committed first.
        """
        found: Partition | None = None
        try:
            topic = self._catalogue.topic_by_id(topic_id)
            config = topic.config
            if partition_count and partition_count != config.partitions:
                raise StalePartitionCount(topic=topic.name, count=config.partitions)
            if not 0 <= partition < config.partitions:  # one of a growth is open before it is recorded
                raise PartitionNotFound(topic=topic.name, count=config.partitions, partition=partition)
            found = self._partitions.get(topic_id, partition)
            header = check_frame(frame, found.limits, needs_keys=config.is_compacted)
            producer_id, attributes = header.producer_id, header.attributes
            if producer_id >= FIRST_RELAY_ID:
                raise InvalidFrame(problem=f"producer id {producer_id} is one of the broker's own")
            if attributes & (CONTROL | ENCRYPTED):
                raise NotSupported(feature="a control frame" if attributes & CONTROL else "an encrypted frame")
            if attributes & TRANSACTIONAL:
                append = partial(self._append, topic, partition, frame, header)
                return self._transactions.write(header, topic_id, partition, append)
            epoch = header.producer_epoch
            if producer_id != NO_PRODUCER and not self._producers.is_known(producer_id, epoch):
                append = partial(self._append, topic, partition, frame, header)
                return self._producers.append_later(producer_id, epoch, append)
            if header.columns & COLUMN_DELIVER_AT:
                return self._delays.schedule_frame(topic, partition, frame, header)
            return found.append(frame, header, alone=alone and producer_id == NO_PRODUCER)
        except QuiverError as error:
            self._refused_by(found, error)
            raise

    def _refused_by(self, partition: Partition | None, error: QuiverError) -> None:
        if partition is None:
            self.refused[error.code] = self.refused.get(error.code, 0) + 1
        else:
            partition.traffic.note_refused(error.code)

    def _append(self, topic: Topic, number: int, frame: Frame, header: FrameHeader) -> "asyncio.Future[Appended]":
        if header.columns & COLUMN_DELIVER_AT:
            return self._delays.schedule_frame(topic, number, frame, header)
        return self._partitions.get(topic.id, number).append(frame, header)

    def begin(self, topic_name: str, message: NewMessage) -> PublishFuture | QuiverError:
        """Queues one message before it returns, or returns why it was refused."""
        return self._start(self.topic(topic_name), message)

    async def messages(self, topic_name: str, messages: Sequence[NewMessage]) -> list[Published | QuiverError]:
        """Publishes each message by itself; returns the position of each, or why it was refused."""
        topic = self.topic(topic_name)
        started: list[PublishFuture | QuiverError] = []
        begun_at_once: set[int] = set()
        for message in messages:
            begun = self._start(topic, message)
            started.append(begun)
            if isinstance(begun, PublishFuture):
                begun_at_once.add(begun.partition)
            if len(begun_at_once) >= _PARTITIONS_AT_ONCE:  # each one builds a frame in its own turn of the loop
                begun_at_once.clear()
                await asyncio.sleep(0)
        return [await outcome_of(begun) for begun in started]

    def topic(self, name: str) -> Topic:
        try:
            return self._catalogue.topic(name)
        except QuiverError as error:
            self._refused_by(None, error)
            raise

    def _start(self, topic: Topic, message: NewMessage) -> PublishFuture | QuiverError:
        try:
            number = self.choose(topic, message)
        except QuiverError as error:
            self._refused_by(None, error)
            return error
        return self.begin_at(topic, number, message)

    def begin_at(self, topic: Topic, number: int, message: NewMessage) -> PublishFuture | QuiverError:
        """The same for a partition that was chosen."""
        found: Partition | None = None
        try:
            if message.key is None and topic.config.is_compacted:
                raise InvalidRequest(problem=KEY_NEEDED)
            found = self._partitions.get(topic.id, number)
            if message.deliver_at_ms is None:
                return PublishFuture(number, found.append_message(message))
            if message.deliver_at_ms > self._clock.now_ms():
                return PublishFuture(number, self._delays.schedule_message(topic, number, message))
            now = msgspec.structs.replace(message, deliver_at_ms=None)
            return PublishFuture(number, found.append_message(now))
        except QuiverError as error:
            self._refused_by(found, error)
            return error
        except Exception:  # only this message is at fault: the others are published
            logger.exception("a message to %s was refused", topic.name)
            return QuiverError()

    def choose(self, topic: Topic, message: NewMessage) -> int:
        """The partition of a message; PartitionNotFound if it names one that is not there."""
        count = topic.config.partitions
        chosen = chosen_partition(topic, message, count)
        if chosen is not None:
            return chosen
        sent = self._sticky[topic.id] = self._sticky.get(topic.id, -1) + 1
        return sent // _STICKY_MESSAGES % count


def chosen_partition(topic: Topic, message: NewMessage, count: int) -> int | None:
    """The partition that a message names, or that its key, or else its id, hashes to; None: any."""
    if message.partition is not None:
        if not 0 <= message.partition < count:
            raise PartitionNotFound(topic=topic.name, count=count, partition=message.partition)
        return message.partition
    hashed = message.id if message.key is None else message.key
    return None if hashed is None else partition_for(hashed, count)


async def outcome_of(begun: PublishFuture | QuiverError) -> Published | QuiverError:
    if isinstance(begun, QuiverError):
        return begun
    if not begun.future.done():
        with contextlib.suppress(Exception):
            await begun.future
    return begun.outcome()
