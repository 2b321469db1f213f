"""One topic as the queue of a group: receivers wait there, and are served from its partitions."""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from quiver.groups.events import Group
from quiver.model.errors import QuiverError
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.context import QueueContext
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition.read_ahead import LOOK_AHEAD, LOOK_AHEAD_FOR_KEY
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.state.port import LEVELS
from quiver.queues.topic.available_partitions import ALL_LEVELS, AvailablePartitions, Pick
from quiver.queues.topic.consumers import Consumer, Consumers
from quiver.queues.topic.first_use import FirstUse
from quiver.structures.murmur2 import partition_for
from quiver.system.pace import Pace
from quiver.topics.partitions import Partitions

if TYPE_CHECKING:
    from quiver.queues.receive import ReceiveCall

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 60.0


class TopicQueue:
    """Receivers are served in the order in which they came, by one task at a time: the one that has the lock.

    Messages arrive (`CommittedView.watch`) or become available again (settlements, expired leases, due retries):
    `has_news` notes the partition, and wakes the receivers that wait.
    """

    def __init__(
        self,
        topic: Topic,
        group: Group,
        first_use: FirstUse,
        partitions: Partitions,
        partition_queues: PartitionQueues,
        context: QueueContext,
    ) -> None:
        self.name, self.group_id, self._ordering = group.name, group.id, group.ordering
        self.topic = topic
        self._group = group
        self._group_settings = group.settings
        self.settings = group.settings.for_topic(topic.config.queue)
        self._partitions = partitions
        self._turnstile = context.turnstile
        self._clock, self._lease_clock = context.clock, context.lease_clock
        self.first_use = first_use
        self._lock = asyncio.Lock()
        self._queues = partition_queues.follow(topic.id)
        self._available = AvailablePartitions(group.id, self._queues, context.lease_clock)
        self._available.scheduler.configure(topic.config.priority_weights, self.settings.starvation_ms)
        self._watched: dict[int, tuple[Partition, partial[None]]] = {}
        self._failures: dict[int, float] = {}
        """Partitions that could not be read, and the pause before they are tried again."""
        self._calls: dict[ReceiveCall, None] = {}
        self._waker: asyncio.Task[None] | None = None
        self._is_full = False
        """A receiver waits although messages are available, because its consumer holds as many as it may."""
        self._closed_by: QuiverError | None = None
        self.consumers = Consumers(partial(_held_in, self._available), self._clock.now_ms())
        self.consumers.changed.update(self._queues)
        self.partitions_added()

    # what happens elsewhere

    def configure(self, topic: Topic, group: Group) -> None:
        """Settings as they are now."""
        if topic is self.topic and group.settings is self._group_settings:
            return
        self.topic, self._group_settings = topic, group.settings
        self.settings = group.settings.for_topic(topic.config.queue)
        self._available.scheduler.configure(topic.config.priority_weights, self.settings.starvation_ms)
        self._wake()

    def partitions_added(self) -> None:
        """Watches the partitions that it does not know yet."""
        for number, partition in self._partitions.owned(self.topic.id):
            if number not in self._watched:
                on_news = partial(self.has_news, number)
                partition.committed.watch(on_news)
                self._watched[number] = (partition, on_news)
                self._available.add(number, partition)
        self._wake()

    def has_news(self, number: int) -> None:
        """The partition may have messages that are available."""
        self._available.news.add(number)
        if self._calls:
            self._wake()

    def may_hold_more(self, number: int) -> None:
        """A consumer holds less in the partition, so it may get others."""
        self.consumers.changed.add(number)
        if self._is_full:
            self._wake()

    def settled(self, number: int, *, frees: bool) -> None:
        """Consumers may hold less in the partition; with `frees`, some of it may be available to others."""
        self.may_hold_more(number)
        if frees or self._ordering == "key":
            self.has_news(number)

    def rewound(self, number: int) -> None:
        """The group begins elsewhere in the partition."""
        self._available.rewound(number)
        self.settled(number, frees=True)

    def close(self, error: QuiverError) -> None:
        """Whoever waits gets the error."""
        self._closed_by = error
        for partition, on_news in self._watched.values():
            partition.committed.unwatch(on_news)
        self._watched.clear()
        if self._waker is not None:
            self._waker.cancel()
        for call in list(self._calls):
            call.fail(error)

    @property
    def waiting(self) -> list[str]:
        """The consumers that wait, each once."""
        return list(dict.fromkeys(call.consumer for call in self._calls))

    @property
    def has_begun(self) -> bool:
        return self._available.state(0) is not None or self.first_use.has_begun

    async def begin(self, start: Position | None) -> None:
        """The group's first use of the topic."""
        try:
            await self.first_use.begin(start or EARLIEST)
        except (QuiverError, OSError):
            if self._closed_by is not None:
                raise self._closed_by from None
            raise

    # receiving

    @property
    def is_paused(self) -> bool:
        """Nothing is leased meanwhile; receivers wait."""
        return self.topic.id in self._group.paused

    def group_changed(self) -> None:
        """Receivers are served if the group was resumed."""
        if not self.is_paused:
            self._wake()

    async def join(self, call: "ReceiveCall") -> None:
        """The receiver waits here until it leaves; on return it has what is available to it now."""
        if self._closed_by is not None:
            raise self._closed_by
        self._calls[call] = None
        self.consumers.seen(call.consumer, self._clock.now_ms())
        if not self._available.may_have_any:
            return
        try:
            async with self._lock:
                if call.is_open:
                    await self._serve()
        except BaseException:
            self._wake()
            raise

    def leave(self, call: "ReceiveCall") -> None:
        self._calls.pop(call, None)

    def known_consumers(self) -> dict[str, Consumer]:
        """Consumers that wait, hold something, or were seen a short while ago."""
        now_ms = self._clock.now_ms()
        for call in self._calls:
            self.consumers.seen(call.consumer, now_ms)
        return self.consumers.known(now_ms)

    def _wake(self) -> None:
        if self._waker is None and self._calls and self._closed_by is None:
            self._waker = asyncio.get_running_loop().create_task(self._serve_next())

    async def _serve_next(self) -> None:
        await self._turnstile.enter()
        async with self._lock:
            self._waker = None
            await self._serve()

    async def _serve(self) -> None:
        """Gives the receivers that wait what is available."""
        available, is_done = self._available, False
        while not is_done and not self.is_paused:
            self._is_full = False
            await available.sort_news()
            if available.unprobed:
                await self._probe()
            for call in list(self._calls) if available.scheduler.any else ():
                await self._fill(call)
                if call.leases:
                    call.wake()
                if not available.scheduler.any:
                    break
            is_done = not available.unprobed or not any(call.is_open for call in self._calls)

    async def _probe(self) -> None:
        try:
            await self._available.probe()
        finally:
            while self._available.failed:
                self._failed(*self._available.failed.popitem())

    async def _fill(self, call: "ReceiveCall") -> None:
        want = self.consumers.room(call.consumer, limit=self.settings.max_unacked, want=call.remaining)
        if want < 1 and call.is_open:
            self._is_full = True
        if call.keys is not None and call.keys.key is not None:
            await self._fill_key(call, call.keys.key, want)
            return
        pace = Pace()
        while want > 0 and self._may_lease(call):
            await pace.turn()
            pick = self._available.scheduler.pick(want, self._lease_clock.now_ms(), call.levels)
            if pick is not None:
                want -= await self._take(pick, call)
            elif self._available.news:
                await self._available.sort_news()
            else:
                return

    async def _take(self, pick: Pick, call: "ReceiveCall") -> int:
        """Takes what the scheduler picked, as far as it is there; returns how many messages that was."""
        got, has_more = 0, True
        try:
            partition_queue = await self._begun(pick.partition)
            levels = 1 << pick.level if self._ordering == "none" else ALL_LEVELS
            available = await self._read_ahead(partition_queue, pick.want, levels, call)
            self._failures.pop(pick.partition, None)
            if not available[pick.level]:
                has_more = False
            elif self._may_lease(call):
                got = self._lease(partition_queue, pick, call)
                has_more = got > 0 and self._available.has_more(pick, available[pick.level] - got)
        except Exception as error:
            has_more = False
            self._failed(pick.partition, error)
            if len(self._failures) == len(self._watched):
                call.problem = error if isinstance(error, QuiverError) else QuiverError()
        finally:
            self._available.scheduler.served(pick, got, has_more=has_more)
        return got

    async def _fill_key(self, call: "ReceiveCall", key: bytes, want: int) -> None:
        """From the partition of the key, whatever else is available there and whose turn it is."""
        number = partition_for(key, self.topic.config.partitions)
        try:
            partition_queue = await self._begun(number)
            available = await self._read_ahead(partition_queue, want, ALL_LEVELS, call)
        except Exception as error:
            self._failed(number, error)
            call.problem = error if isinstance(error, QuiverError) else QuiverError()
            return
        for level in range(LEVELS):
            if want > 0 and available[level] and call.levels >> level & 1 and self._may_lease(call):
                want -= self._lease(partition_queue, Pick(level, number, want), call)

    async def _begun(self, number: int) -> PartitionQueue:
        found = self._queues.get(number)
        if found is None or found.state(self.group_id) is None:
            return await self.first_use.begun(number)
        return found

    def _may_lease(self, call: "ReceiveCall") -> bool:
        return call.is_open and self._closed_by is None and not self.is_paused

    async def _read_ahead(
        self, partition_queue: PartitionQueue, count: int, levels: int, call: "ReceiveCall"
    ) -> list[int]:
        """Further if only some keys are wanted: their messages may come after those of many others."""
        if call.keys is not None:
            count = max(count, LOOK_AHEAD if call.keys.key is None else LOOK_AHEAD_FOR_KEY)
        return await partition_queue.issuer.read_ahead(self.group_id, count=count, levels=levels)

    def _failed(self, number: int, error: Exception) -> None:
        """A partition that cannot be read holds up only itself, and is tried again later."""
        pause = self._failures[number] = min(2 * self._failures.get(number, 0.5), _LONGEST_PAUSE_SECONDS)
        unexpected = not isinstance(error, QuiverError | OSError)
        where = f"{self.topic.name}-{number}"
        logger.warning("group %s gets nothing from %s: %s", self.name, where, error, exc_info=unexpected)
        asyncio.get_running_loop().call_later(pause, self.has_news, number)

    def _lease(self, partition_queue: PartitionQueue, pick: Pick, call: "ReceiveCall") -> int:
        lease = call.lease(self, partition_queue, self._lease_clock.now_ms())
        taken = partition_queue.issuer.take(self.group_id, pick.level, pick.want, lease.terms)
        count = call.add(lease, taken)
        self.consumers.took(pick.partition, call.consumer, count)
        if count and self._ordering == "key":
            self._available.news.add(pick.partition)  # the next of a key may be of another level
        return count


def _held_in(available: AvailablePartitions, number: int) -> dict[str, int]:
    state = available.state(number)
    return {} if state is None else state.held_by()
