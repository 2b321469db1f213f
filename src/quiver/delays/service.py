"""Delays: messages that enter a topic when they are due."""

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from quiver.delays.due_clock import DueClock
from quiver.delays.page import OpenPending, PendingMessages, delay_page
from quiver.delays.partition.due_moves import Lateness
from quiver.delays.partition.partition_delays import DelayContext, PartitionDelays
from quiver.delays.partition.read_ahead import MemoryShare
from quiver.delays.partitions import DelayPartitions
from quiver.delays.stats import DelayStats
from quiver.model.errors import DelayedNotFound, InvalidRequest, PartitionNotFound
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.priority import Priority
from quiver.model.schedule import DelayedMessage
from quiver.model.topic import Topic
from quiver.partition.partition import Appended, Frame, Partition
from quiver.records.header import FrameHeader
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.pace import bounded_gather, paced
from quiver.telemetry.failures import Failures
from quiver.telemetry.histogram import WAIT_SECONDS, Histogram
from quiver.telemetry.periodic_task import PeriodicTask
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_MAINTENANCE_SECONDS = 5.0
_UNSAVED_MESSAGES = 200_000
_SHOWN_PARTITIONS = 10
_PRIORITIES = tuple(Priority)


class DelayedPage(NamedTuple):
    messages: list[DelayedMessage]
    total: int
    """How many are pending."""


class Delays:
    def __init__(self, storage: Storage, catalogue: TopicCatalogue, partitions: Partitions, *, clock: Clock) -> None:
        self._catalogue = catalogue
        self._due_clock = DueClock(clock)
        self._deleted_lateness = Histogram(WAIT_SECONDS)
        context = DelayContext(clock, self._due_clock, MemoryShare())
        self._partitions = DelayPartitions(storage, catalogue, partitions, context)
        self._maintenance = PeriodicTask("delays", self._maintain, every_seconds=_MAINTENANCE_SECONDS)

    async def start(self) -> None:
        """Opens the existing delays and starts to deliver."""
        await self._partitions.open_existing()
        self._due_clock.start()
        self._maintenance.start()

    async def stop(self) -> None:
        """Finishes what was accepted. Called before the partitions are closed."""
        await self._maintenance.stop()
        for delays in self._partitions.all():
            delays.hold()
        await self._due_clock.stop()
        await self._partitions.close()

    # publishing

    def schedule_frame(
        self, topic: Topic, number: int, frame: Frame, header: FrameHeader
    ) -> "asyncio.Future[Appended]":
        """Queues a checked frame; calls made in order are written in order."""
        return self._partitions.when_open(topic, number, lambda delays: delays.intake.frame(frame, header))

    def schedule_message(self, topic: Topic, number: int, message: NewMessage) -> "asyncio.Future[Appended]":
        """Queues one message; the future returns its id, or the first message with the same message id."""
        return self._partitions.when_open(topic, number, lambda delays: delays.intake.message(message))

    def schedule_log(self, topic: Topic, number: int) -> "asyncio.Future[Partition]":
        """The schedule log of a partition, opened if necessary."""
        return self._partitions.when_open(topic, number, _schedule_of)

    def schedule_logs(self) -> list[tuple[TopicPartition, Partition]]:
        """Those that are open, by topic id and partition."""
        return [(delays.place, delays.schedule) for delays in self._partitions.all()]

    # looking, cancelling, rescheduling

    @property
    def tasks(self) -> Sequence[SupervisedTask | PeriodicTask]:
        return [self._maintenance, self._due_clock.task]

    def lateness_seconds(self) -> Histogram:
        """How late messages entered their topics, also those that were deleted since."""
        total = Histogram(WAIT_SECONDS)
        total.add(self._deleted_lateness)
        for delays in self._partitions.all():
            total.add(delays.moves.lateness.seconds)
        return total

    def pending_count(self, topic_id: int) -> int:
        return self._partitions.pending_count(topic_id)

    async def page(self, topic_name: str, *, skip: int, limit: int) -> DelayedPage:
        """Pending messages in order of time."""
        topic = self._catalogue.topic(topic_name)
        return await delayed_page(self.pending(topic.id), self.pending_count(topic.id), skip=skip, limit=limit)

    def pending(self, topic_id: int) -> OpenPending:
        """What waits in the partitions of this process."""
        return OpenPending({delays.place.partition: delays.state.pending for delays in self._partitions.of(topic_id)})

    async def get(self, topic_name: str, partition: int | None, id: int) -> DelayedMessage:
        """One message, also one that has left, as long as it is in the schedule log. Raises DelayedNotFound.

        Without a partition it is searched for in all. Raises InvalidRequest if several have the id.
        """
        return the_one(await self.find(topic_name, partition, id), topic_name, partition, id)

    async def find(self, topic_name: str, partition: int | None, id: int) -> list[DelayedMessage]:
        """Those with the id in one partition, or in all that this process has."""
        topic = self._catalogue.topic(topic_name)
        opened = [delays.place.partition for delays in self._partitions.of(topic.id)]
        numbers = opened if partition is None else [partition]
        return [
            message async for number in paced(numbers) if (message := await self._look_up(topic_name, number, id))
        ]

    async def _look_up(self, topic_name: str, partition: int, id: int) -> DelayedMessage | None:
        delays = self._find(topic_name, partition)
        found = None if delays is None else await delays.look_up(id)
        if found is None:
            return None
        delayed, state = found
        return DelayedMessage(partition, id, delayed.deliver_at_ms, Priority(delayed.priority), state)

    def of_partition(self, topic_id: int, number: int) -> PartitionDelays | None:
        """None if nothing was ever delayed there."""
        return self._partitions.get(topic_id, number)

    async def cancel(self, topic_name: str, partition: int, ids: Sequence[int]) -> set[int]:
        """Cancels messages; returns those that will never be delivered. The others had left, or never existed."""
        delays = self._find(topic_name, partition)
        return set() if delays is None else await delays.cancel(ids)

    async def reschedule(self, topic_name: str, partition: int, ids: Sequence[int], deliver_at_ms: int) -> set[int]:
        """Makes messages due at another time; returns those that will be delivered then. The others had left, or
        never existed."""
        delays = self._find(topic_name, partition)
        return set() if delays is None else await delays.reschedule(ids, deliver_at_ms)

    async def stats(self) -> DelayStats:
        stats = DelayStats()
        async for delays in paced(self._partitions.all()):
            stats.add_partition(delays.state.totals, len(delays.state.pending), delays.moves)
        stats.waiting_by_topic = {
            topic.name: waiting
            async for topic in paced(self._catalogue.topics())
            if (waiting := self.pending_count(topic.id))
        }
        return stats

    def problems(self) -> dict[str, str]:
        """The partitions that accept no delayed messages, and why."""
        problems = self._partitions.problems
        names: dict[int, str] = {topic.id: topic.name for topic in self._catalogue.topics()} if problems else {}
        found = {
            f"delays of {names.get(place.topic_id)}-{place.partition}": problem for place, problem in problems.items()
        }
        for delays in self._partitions.all():
            if delays.schedule.log.failure is not None:
                found[delays.schedule.name] = delays.schedule.log.failure
        return found

    # topics

    async def topic_changed(self, topic: Topic) -> None:
        await self._partitions.reconfigure(topic)

    async def topic_purged(self, topic: Topic) -> None:
        await bounded_gather(PartitionDelays.purge, self._partitions.of(topic.id))

    async def topic_removed(self, topic: Topic) -> None:
        for delays in self._partitions.of(topic.id):
            self._deleted_lateness.add(delays.moves.lateness.seconds)
            delays.moves.lateness = Lateness()
        await self._partitions.remove_topic(topic.id)

    # inner

    def _find(self, topic_name: str, partition: int) -> PartitionDelays | None:
        topic = self._catalogue.topic(topic_name)
        if not 0 <= partition < topic.config.partitions:
            raise PartitionNotFound(topic=topic_name, count=topic.config.partitions, partition=partition)
        return self._partitions.get(topic.id, partition)

    async def _maintain(self, failures: Failures) -> None:
        async for delays in paced(self._partitions.all()):
            with failures.of(f"maintenance of {delays.schedule.name}"):
                await delays.maintain()
        await self._shorten_replay(failures)

    async def _shorten_replay(self, failures: Failures) -> None:
        """Limits what the next start has to read, over all partitions."""
        total = pending = 0
        async for delays in paced(self._partitions.all()):
            total += delays.unsaved_messages
            pending += len(delays.state.pending)
        limit = max(_UNSAVED_MESSAGES, pending // 2)
        if total <= limit:
            return
        for delays in sorted(self._partitions.all(), key=lambda delays: -delays.unsaved_messages):
            if total <= limit:
                return
            total -= delays.unsaved_messages
            with failures.of(f"a snapshot of {delays.schedule.name}"):
                await delays.save()


async def delayed_page(pending: PendingMessages, total: int, *, skip: int, limit: int) -> DelayedPage:
    messages = [
        DelayedMessage(partition, id, time_ms, _PRIORITIES[priority], "pending")
        for time_ms, partition, id, priority in await delay_page(pending, skip, limit)
    ]
    return DelayedPage(messages, total)


def the_one(found: Sequence[DelayedMessage], topic_name: str, partition: int | None, id: int) -> DelayedMessage:
    """DelayedNotFound if there is none, InvalidRequest if there are several."""
    if not found:
        raise DelayedNotFound(topic=topic_name, partition=partition, id=id)
    if len(found) > 1:
        having = ", ".join(str(message.partition) for message in found[:_SHOWN_PARTITIONS])
        raise InvalidRequest(problem=f"several partitions have a delayed message {id} ({having}): say which")
    return found[0]


def _schedule_of(delays: PartitionDelays) -> "asyncio.Future[Partition]":
    found: asyncio.Future[Partition] = asyncio.get_running_loop().create_future()
    found.set_result(delays.schedule)
    return found
