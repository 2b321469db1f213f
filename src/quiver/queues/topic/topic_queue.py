"""A topic as the queue of one group: which partition is next, which receivers wait, what each consumer holds."""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from quiver.groups.table import Group
from quiver.model.errors import QuiverError
from quiver.model.position import EARLIEST, Position
from quiver.model.topic import Topic
from quiver.partition.partition import Partition
from quiver.queues.context import QueueContext
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.partition_queues import PartitionQueues
from quiver.queues.state.port import LEVELS, GroupState
from quiver.queues.topic.consumers import Consumer, Consumers
from quiver.queues.topic.fair_scheduler import ALL_LEVELS, FairScheduler, Pick
from quiver.queues.topic.first_use import FirstUse
from quiver.system.pace import Pace
from quiver.topics.partitions import Partitions

if TYPE_CHECKING:
    from quiver.queues.receive import ReceiveCall

logger = logging.getLogger(__name__)

_PROBED_AT_ONCE = 64
_NOTHING = [0] * LEVELS
_LONGEST_PAUSE_SECONDS = 60.0


class TopicQueue:
    """Receivers are served in the order in which they came, by one task at a time: the one that has the lock.

    Nothing loops over all partitions. Those that may have messages are noted when something happens in them
    (`CommittedView.watch`, settlements, expired leases, due retries) and looked at when a receiver wants messages.
    """

    def __init__(
        self,
        topic: Topic,
        name: str,
        group: Group,
        partitions: Partitions,
        partition_queues: PartitionQueues,
        context: QueueContext,
    ) -> None:
        self.name, self.group_id, self._ordering = name, group.id, group.ordering
        self.topic = topic
        self._group_settings = group.settings
        self.settings = group.settings.for_topic(topic.config.queue)
        self._partitions = partitions
        self._partition_queues = partition_queues
        self._turnstile = context.turnstile
        self._clock, self._lease_clock = context.clock, context.lease_clock
        self._first_use = FirstUse(topic.id, group, partitions, partition_queues)
        self._lock = asyncio.Lock()
        self._watched: dict[int, tuple[Partition, partial[None]]] = {}
        self._news: set[int] = set()
        self._unprobed: dict[int, None] = {}
        """Partitions with messages from before the start, whose levels are not known yet."""
        self._floors: dict[int, list[int]] = {}
        """Of partitions that were probed, by level: there is nothing unread below."""
        self._failures: dict[int, float] = {}
        """Partitions that could not be read, and the pause before they are tried again."""
        self._scheduler = FairScheduler()
        self._scheduler.configure(topic.config.priority_weights, self.settings.starvation_ms)
        self._calls: dict[ReceiveCall, None] = {}
        self._waker: asyncio.Task[None] | None = None
        self._is_full = False
        """A receiver waits although messages are available, because its consumer holds as many as it may."""
        self._closed_by: QuiverError | None = None
        self.consumers = Consumers(self._held_in, self._clock.now_ms())
        for number in partition_queues.of(topic.id):
            self.consumers.changed(number)
        self.partitions_added()

    # what happens elsewhere

    def configure(self, topic: Topic, group: Group) -> None:
        """Settings as they are now."""
        if topic is self.topic and group.settings is self._group_settings:
            return
        self.topic, self._group_settings = topic, group.settings
        self.settings = group.settings.for_topic(topic.config.queue)
        self._scheduler.configure(topic.config.priority_weights, self.settings.starvation_ms)
        self._wake()

    def partitions_added(self) -> None:
        """Watches the partitions that it does not know yet."""
        for number, partition in self._partitions.owned(self.topic.id):
            if number not in self._watched:
                on_news = partial(self.has_news, number)
                partition.committed.watch(on_news)
                self._watched[number] = (partition, on_news)
                self._news.add(number)
        self._wake()

    def has_news(self, number: int) -> None:
        """The partition may have messages that are available."""
        self._news.add(number)
        if self._calls:
            self._wake()

    def settled(self, number: int, *, frees: bool) -> None:
        """Consumers may hold less in the partition; with `frees`, some of it may be available to others."""
        self.consumers.changed(number)
        if frees or self._ordering == "key":
            self.has_news(number)
        elif self._is_full:
            self._wake()

    def rewound(self, number: int) -> None:
        """The group begins elsewhere in the partition: what is known of its levels is out of date."""
        self._floors.pop(number, None)
        self.settled(number, frees=True)

    def close(self, error: QuiverError) -> None:
        """Whoever waits gets the error."""
        self._closed_by = error
        for partition, on_news in self._watched.values():
            partition.committed.unwatch(on_news)
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
        return self._state(0) is not None or self._first_use.has_begun

    async def begin(self, start: Position | None) -> None:
        """The group's first use of the topic."""
        try:
            await self._first_use.begin(start or EARLIEST)
        except (QuiverError, OSError):
            if self._closed_by is not None:
                raise self._closed_by from None
            raise

    def _state(self, number: int) -> GroupState | None:
        partition_queue = self._partition_queues.get(self.topic.id, number)
        return None if partition_queue is None else partition_queue.state(self.group_id)

    def _held_in(self, number: int) -> dict[str, int]:
        state = self._state(number)
        return {} if state is None else state.held_by()

    # receiving

    async def join(self, call: "ReceiveCall") -> None:
        """The receiver waits here until it leaves; on return it has what is available to it now."""
        if self._closed_by is not None:
            raise self._closed_by
        self._calls[call] = None
        self.consumers.seen(call.consumer, self._clock.now_ms())
        if not self._news and not self._scheduler.any and not self._unprobed:
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
        is_done = False
        while not is_done:
            self._is_full = False
            await self._sort_news()
            await self._probe()
            for call in list(self._calls) if self._scheduler.any else ():
                await self._fill(call)
                if call.leases:
                    call.wake()
                if not self._scheduler.any:
                    break
            is_done = not self._unprobed or not any(call.is_open for call in self._calls)

    async def _sort_news(self) -> None:
        """Adds partitions that have something to the scheduler."""
        now_ms, pace = self._lease_clock.now_ms(), Pace()
        while self._news:
            await pace.turn()
            if not self._news:
                return
            number = self._news.pop()
            state = self._state(number)
            available = _NOTHING if state is None else state.available(now_ms)
            unread = [level for level in range(LEVELS) if self._may_have_unread(number, level, state)]
            if len(unread) > 1 and number not in self._floors:
                self._unprobed[number] = None
            for level in range(LEVELS):
                if available[level] or (level in unread and number not in self._unprobed):
                    self._scheduler.add(level, number)

    def _may_have_unread(self, number: int, level: int, state: GroupState | None) -> bool:
        partition = self._watched[number][0]
        position = partition.log.start_offset if state is None else state.position(level)
        if number in self._floors:
            position = max(position, self._floors[number][level])
        return min(partition.committed.newest[level], partition.committed.last_stable) > position

    def _lowest_position(self, number: int) -> int:
        start, state = self._watched[number][0].log.start_offset, self._state(number)
        return start if state is None else max(start, min(state.position(level) for level in range(LEVELS)))

    async def _probe(self) -> None:
        """Finds the levels of messages that were stored before the broker was started.

        A slice of the partitions at a time, or as many as it takes to find something.
        """
        looks = 0
        while self._unprobed and (looks < _PROBED_AT_ONCE or not self._scheduler.any):
            number = next(iter(self._unprobed))
            partition, at = self._watched[number][0], self._lowest_position(number)
            end, looks = partition.committed.high_watermark, looks + 1
            try:
                counts = await partition.log.count_by_priority(at) if at < end else _NOTHING
                if self._lowest_position(number) < at:
                    continue  # it was rewound meanwhile
                self._floors[number] = [0 if count else end for count in counts]
                self._news.add(number)
            except Exception as error:
                self._failed(number, error)
            self._unprobed.pop(number, None)
            await self._sort_news()

    async def _fill(self, call: "ReceiveCall") -> None:
        want = self.consumers.room(call.consumer, limit=self.settings.max_unacked, want=call.remaining)
        if want < 1 and call.is_open:
            self._is_full = True
        pace = Pace()
        while want > 0 and call.is_open and self._closed_by is None:
            await pace.turn()
            pick = self._scheduler.pick(want, self._lease_clock.now_ms(), call.levels)
            if pick is not None:
                want -= await self._take(pick, call)
            elif self._news:
                await self._sort_news()
            else:
                return

    async def _take(self, pick: Pick, call: "ReceiveCall") -> int:
        """Takes what the scheduler picked, as far as it is there; returns how many messages that was."""
        got, has_more = 0, True
        try:
            partition_queue = self._partition_queues.get(self.topic.id, pick.partition)
            if partition_queue is None or partition_queue.state(self.group_id) is None:
                partition_queue = await self._first_use.begun(pick.partition)
            available = await self._read_ahead(partition_queue, pick)
            self._failures.pop(pick.partition, None)
            if not available[pick.level]:
                has_more = False
            elif call.is_open and self._closed_by is None:
                got = self._lease(partition_queue, pick, call)
                has_more = got > 0 and self._has_more(pick, available[pick.level] - got)
        except Exception as error:
            has_more = False
            self._failed(pick.partition, error)
            if len(self._failures) == len(self._watched):
                call.problem = error if isinstance(error, QuiverError) else QuiverError()
        finally:
            self._scheduler.served(pick, got, has_more=has_more)
        return got

    async def _read_ahead(self, partition_queue: PartitionQueue, pick: Pick) -> list[int]:
        levels = 1 << pick.level if self._ordering == "none" else ALL_LEVELS
        return await partition_queue.issuer.read_ahead(self.group_id, count=pick.want, levels=levels)

    def _failed(self, number: int, error: Exception) -> None:
        """A partition that cannot be read holds up only itself, and is tried again later."""
        pause = self._failures[number] = min(2 * self._failures.get(number, 0.5), _LONGEST_PAUSE_SECONDS)
        unexpected = not isinstance(error, QuiverError | OSError)
        where = f"{self.topic.name}-{number}"
        logger.warning("group %s gets nothing from %s: %s", self.name, where, error, exc_info=unexpected)
        asyncio.get_running_loop().call_later(pause, self.has_news, number)

    def _lease(self, partition_queue: PartitionQueue, pick: Pick, call: "ReceiveCall") -> int:
        lease = call.lease(self, partition_queue, self._lease_clock.now_ms())
        taken = partition_queue.issuer.take(
            self.group_id,
            pick.level,
            pick.want,
            lease=lease.lease_id,
            consumer=call.consumer,
            deadline_ms=lease.deadline_ms,
        )
        count = call.add(lease, taken)
        self.consumers.took(pick.partition, call.consumer, count)
        if count and self._ordering == "key":
            self._news.add(pick.partition)  # the next of a key may be of another level
        return count

    def _has_more(self, pick: Pick, available: int) -> bool:
        state = self._state(pick.partition)
        return available > 0 or self._may_have_unread(pick.partition, pick.level, state)
