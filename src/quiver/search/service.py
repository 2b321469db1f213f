"""Searches: begins, finds, cancels and forgets them. They are in memory: after a restart there are none."""

import asyncio
from collections.abc import Awaitable, Callable

from quiver.messages.position_offset import position_offset
from quiver.model.errors import InvalidRequest, Overloaded, PartitionNotFound, SearchNotFound, ShuttingDown
from quiver.model.limits import MIB
from quiver.model.topic import Topic
from quiver.search.job import Progress, SearchJob
from quiver.search.partition_walk import Filter, PartitionWalk, WalkState
from quiver.search.request import SearchRequest
from quiver.search.topic_walk import TopicWalk, Walk
from quiver.system.clock import Clock
from quiver.system.randomness import Randomness
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.partitions import Partitions

MOST_RUNNING = 16
_MOST_KEPT = 100
_KEPT_SECONDS = 60.0
"""How long what was found can be asked for after the end, from the last time that somebody did."""
_KEPT_BYTES = 64 * MIB
_AT_ONCE = 2
"""Searches that look at a slice at the same time; the others wait for their turn."""


OpenWalk = Callable[[Topic, int, SearchRequest, Filter, int | None], Awaitable[Walk]]
"""Through a partition: the topic, its number, what is wanted, and where an earlier search has stopped."""


class Searches:
    def __init__(
        self, catalogue: TopicCatalogue, partitions: Partitions, *, clock: Clock, randomness: Randomness
    ) -> None:
        self._catalogue = catalogue
        self._partitions = partitions
        self._clock = clock
        self._randomness = randomness
        self._jobs: dict[str, SearchJob] = {}
        """In the order of their beginning."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._is_stopped = False
        self.open_walk: OpenWalk = self.open_own_walk
        """Set while the broker is built, if other processes own partitions."""

    async def begin(self, topic: str, request: SearchRequest) -> Progress:
        """Begins a search over what is committed now. It goes on by itself."""
        if self._is_stopped:
            raise ShuttingDown()
        found = self._catalogue.topic(topic)
        numbers = self._numbers(found, request)
        self._forget()
        if sum(job.is_running for job in self._jobs.values()) >= MOST_RUNNING:
            raise Overloaded(problem=f"{MOST_RUNNING} searches are running")
        job = SearchJob(self._randomness.token(8).hex(), found, request, clock=self._clock)
        self._jobs[job.id] = job
        try:
            filter = Filter(request, now_ms=self._clock.now_ms(), ttl_ms=found.config.ttl_ms)
            walk = await self._walk(found, numbers, request, filter)
            if self._is_stopped:
                raise ShuttingDown()
        except BaseException:
            del self._jobs[job.id]
            raise
        task = asyncio.get_running_loop().create_task(job.run(walk, filter, self._catalogue, self._turn))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job.progress()

    async def progress(self, id: str, *, after: int = 0, wait_seconds: float = 0) -> Progress:
        """A search as it is now, or within some time: when it has more messages than the first `after`, or ends."""
        job = self._job(id)
        await job.wait(after, wait_seconds)
        return job.progress(after)

    async def cancel(self, id: str) -> Progress:
        """Ends a search; one that has ended stays as it is."""
        job = self._job(id)
        job.cancel()
        return job.progress()

    async def stop(self) -> None:
        self._is_stopped = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _job(self, id: str) -> SearchJob:
        self._forget()
        job = self._jobs.get(id)
        if job is None:
            raise SearchNotFound(search=id)
        return job

    def _forget(self) -> None:
        """Those that ended a while ago, and the oldest of them if there are too many or they hold too much."""
        now = self._clock.monotonic()
        for job in [job for job in self._jobs.values() if not job.is_running]:
            is_much = sum(job.result_bytes for job in self._jobs.values()) > _KEPT_BYTES
            if now - job.asked_at > _KEPT_SECONDS or len(self._jobs) >= _MOST_KEPT or is_much:
                del self._jobs[job.id]

    def _numbers(self, topic: Topic, request: SearchRequest) -> list[int]:
        count = topic.config.partitions
        if request.partitions is None:
            return list(range(count))
        for number in request.partitions:
            if not 0 <= number < count:
                raise PartitionNotFound(topic=topic.name, count=count, partition=number)
        if not request.partitions:
            raise InvalidRequest(problem="partitions: name at least one, or leave it out to search all of them")
        return sorted(set(request.partitions))

    async def _walk(self, topic: Topic, numbers: list[int], request: SearchRequest, filter: Filter) -> TopicWalk:
        cursor = None if request.cursor is None else request.cursor.offsets
        walks = [
            await self.open_walk(topic, number, request, filter, None if cursor is None else cursor.get(number))
            for number in numbers
        ]
        return TopicWalk(walks, newest_first=request.newest_first)

    def own_walk_at(self, topic: Topic, number: int, filter: Filter, state: WalkState) -> PartitionWalk:
        """Goes on with a walk through a partition of this process."""
        return PartitionWalk.at(number, self._partitions.get(topic.id, number), filter, state)

    async def open_own_walk(
        self, topic: Topic, number: int, request: SearchRequest, filter: Filter, cursor: int | None
    ) -> PartitionWalk:
        """Through a partition of this process."""
        partition = self._partitions.get(topic.id, number)
        low, high = [await position_offset(partition, place) for place in (request.start, request.end)]
        if cursor is not None:
            low, high = (low, min(high, cursor)) if request.newest_first else (max(low, cursor), high)
        return PartitionWalk(number, partition, filter, (low, high))
