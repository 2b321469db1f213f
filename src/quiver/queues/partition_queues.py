"""The delivery state of partitions: opened on need, and at start-up where there is one; its times and snapshots."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from quiver.model.errors import CorruptData, QuiverError, ShuttingDown, TopicNotFound
from quiver.model.limits import MIB
from quiver.model.topic import Topic
from quiver.queues.lease_ids import LeaseIds
from quiver.queues.partition.frame_cache import FrameCache
from quiver.queues.partition.partition_queue import MoveToDlq, PartitionQueue
from quiver.storage.history import NO_HISTORY, History
from quiver.storage.port import Storage
from quiver.structures.deadlines import Deadlines
from quiver.system.clock import Clock
from quiver.system.pace import bounded_gather, paced
from quiver.system.randomness import Randomness
from quiver.telemetry.failures import Failures
from quiver.telemetry.supervised_task import SupervisedTask
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

_SUFFIX = "-delivery"
_SHORTEST_PAUSE_MS = 20
"""Times that come within this are attended to together."""
_LONGEST_PAUSE_MS = 1_000
_SNAPSHOTS_EVERY_MS = 2_000
_REPLAY_BYTES = 4 * MIB

Place = tuple[int, int]
"""Topic id and partition."""


class PartitionQueues:
    """`attend` is called when a time has come in a partition: leases end, retries are due. What a group that is not
    known any more has left behind is forgotten."""

    def __init__(
        self,
        storage: Storage,
        partitions: Partitions,
        *,
        clock: Clock,
        lease_clock: Clock,
        randomness: Randomness,
        move_to_dlq: MoveToDlq,
        expire: Callable[[PartitionQueue], Awaitable[None]],
        is_known: Callable[[int], bool],
        history: History = NO_HISTORY,
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._clock = clock
        self._lease_clock = lease_clock
        self._randomness = randomness
        self._bury = move_to_dlq
        self._expire = expire
        self._is_known = is_known
        self._history = history
        self._frames = FrameCache()
        self._lease_ids: LeaseIds | None = None
        """Made when the start epoch is known."""
        self._known: dict[int, dict[int, PartitionQueue]] = {}
        self.subscribers: list[Callable[[PartitionQueue], None]] = []
        """Called in the step in which a queue becomes known."""
        self._opening: dict[Place, asyncio.Task[PartitionQueue]] = {}
        self.broken: dict[Place, str] = {}
        """Those that could not be opened, and why."""
        self._deadlines: Deadlines[Place] = Deadlines()
        self._sooner = asyncio.Event()
        self._pause_until_ms = 0
        self.task = SupervisedTask("deliveries", self._run)
        self._is_closed = False

    async def open_existing(self, topics: Iterable[Topic]) -> None:
        """One that cannot be opened is told of, and holds up nothing but its own partition."""
        ids = {topic.id for topic in topics}

        async def open_one(place: Place) -> None:
            try:
                await self.get(*place)
            except (QuiverError, OSError) as error:
                logger.error("the delivery state of topic id %d, partition %d: %s", *place, error)

        places = (place for log_id in await self._storage.list_logs("topics") if (place := _place(log_id)))
        await bounded_gather(open_one, (place for place in places if place[0] in ids))

    async def start(self) -> None:
        """Carries out the moves that were left open, and attends to times from now on."""
        async for queue in paced(self.all()):
            await self._forget_groups(queue)
            queue.resume()
        self.task.start()

    async def close(self) -> None:
        self._is_closed = True
        await self.task.stop()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        await bounded_gather(_close, self.all())

    async def close_topic(self, topic_id: int) -> None:
        """The topic is gone: nothing of it is written any more, its logs may be removed."""
        opening = [task for place, task in self._opening.items() if place[0] == topic_id]
        await asyncio.gather(*opening, return_exceptions=True)
        self.broken = {place: problem for place, problem in self.broken.items() if place[0] != topic_id}
        await bounded_gather(PartitionQueue.abandon, self._known.pop(topic_id, {}).values())

    async def get(self, topic_id: int, number: int) -> PartitionQueue:
        """The one of a partition, opened if need be; TopicNotFound, PartitionNotFound."""
        known = self._known.get(topic_id, {}).get(number)
        if known is not None:
            return known
        if self._is_closed:
            raise ShuttingDown()
        place = (topic_id, number)
        task = self._opening.get(place)
        if task is None:
            task = self._opening[place] = asyncio.get_running_loop().create_task(self._open(topic_id, number))
            task.add_done_callback(lambda _: self._opening.pop(place, None))
        return await asyncio.shield(task)

    def check_open(self, topic_id: int, number: int) -> None:
        """CorruptData where the one of a partition is there and cannot be opened."""
        problem = self.broken.get((topic_id, number))
        if problem is not None:
            raise CorruptData(problem, where=f"topics/{topic_id}/{number}{_SUFFIX}")

    def known(self, topic_id: int) -> Mapping[int, PartitionQueue]:
        """Those that are open, by partition."""
        return self._known.get(topic_id, {})

    def all(self) -> list[PartitionQueue]:
        return [queue for known in self._known.values() for queue in known.values()]

    def note(self, queue: PartitionQueue, at_ms: int | None) -> None:
        """Something happens there at that time, if not before."""
        if at_ms is not None:
            self._deadlines.note((queue.topic_id, queue.number), at_ms)
            if at_ms < self._pause_until_ms:
                self._sooner.set()

    async def expire_due(self) -> None:
        """Everything whose time has come by now."""
        now_ms, failures = self._lease_clock.now_ms(), Failures()
        while (place := self._deadlines.take(now_ms)) is not None:
            queue = self.known(place[0]).get(place[1])
            if queue is None:
                continue
            next_ms: int | None = now_ms + _LONGEST_PAUSE_MS
            with failures.of(f"the end of leases of {queue.partition.name}"):
                await self._expire(queue)
                next_ms = queue.next_time_ms()
            self.note(queue, next_ms)
        failures.check()

    async def _open(self, topic_id: int, number: int) -> PartitionQueue:
        partition = self._partitions.get(topic_id, number)
        if self._lease_ids is None:
            self._lease_ids = LeaseIds(self._partitions.start_epoch)
        try:
            queue = await PartitionQueue.open(
                self._storage,
                partition,
                topic_id=topic_id,
                number=number,
                epoch=partition.leader_epoch,
                clock=self._clock,
                lease_clock=self._lease_clock,
                lease_ids=self._lease_ids,
                randomness=self._randomness,
                frames=self._frames,
                move_to_dlq=self._bury,
                history=self._history,
            )
        except (QuiverError, OSError) as error:
            self.broken[topic_id, number] = str(error)
            raise
        self.broken.pop((topic_id, number), None)
        if self._partitions.of(topic_id)[number : number + 1] != [partition]:
            await queue.close()
            raise TopicNotFound(f"topic id {topic_id} was deleted", topic=topic_id)
        self._known.setdefault(topic_id, {})[number] = queue
        for on_opened in self.subscribers:
            on_opened(queue)
        self.note(queue, queue.next_time_ms())
        return queue

    async def _run(self) -> None:
        snapshots_at_ms = self._clock.monotonic() * 1000 + _SNAPSHOTS_EVERY_MS
        while True:
            await self._pause()
            await self.expire_due()
            if self._clock.monotonic() * 1000 >= snapshots_at_ms:
                await self._keep_up()
                snapshots_at_ms = self._clock.monotonic() * 1000 + _SNAPSHOTS_EVERY_MS

    async def _pause(self) -> None:
        """Until the next time, or until a nearer one that is noted meanwhile."""
        begun_ms = self._lease_clock.now_ms()
        shortest_ms, longest_ms = begun_ms + _SHORTEST_PAUSE_MS, begun_ms + _LONGEST_PAUSE_MS
        while True:
            nearest_ms = self._deadlines.nearest_ms()
            until_ms = longest_ms if nearest_ms is None else max(shortest_ms, min(nearest_ms + 1, longest_ms))
            self._pause_until_ms = until_ms if until_ms > shortest_ms else 0
            self._sooner.clear()
            try:
                async with asyncio.timeout(min(until_ms - self._lease_clock.now_ms(), _LONGEST_PAUSE_MS) / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                return

    async def _keep_up(self) -> None:
        failures = Failures()
        async for queue in paced(self.all()):
            with failures.of(f"a snapshot of the deliveries of {queue.partition.name}"):
                await self._forget_groups(queue)
                await queue.snapshot_if_due()
        await self._shorten_replay(failures)
        failures.check()

    async def _shorten_replay(self, failures: Failures) -> None:
        """However many partitions there are: what the next start has to replay of all of them together is limited."""
        total = snapshots = 0
        async for queue in paced(self.all()):
            total += queue.journal.replay_bytes
            snapshots += queue.journal.snapshot_bytes
        limit = max(_REPLAY_BYTES, snapshots)
        if total <= limit:
            return
        for journal in sorted((queue.journal for queue in self.all()), key=lambda each: -each.replay_bytes):
            if total <= limit:
                return
            total -= journal.replay_bytes
            with failures.of(f"a snapshot of the deliveries of {journal.name}"):
                await journal.snapshot()

    async def _forget_groups(self, queue: PartitionQueue) -> None:
        async for group_id in paced(queue.group_ids):
            if not self._is_known(group_id):
                await queue.forget(group_id)


async def _close(queue: PartitionQueue) -> None:
    try:
        await queue.close()
    except Exception as problem:
        logger.error("the delivery state of %s did not close cleanly: %s", queue.partition.name, problem)


def _place(log_id: str) -> Place | None:
    _, topic_id, name = log_id.split("/")
    number = name.removesuffix(_SUFFIX)
    return (int(topic_id), int(number)) if number != name else None
