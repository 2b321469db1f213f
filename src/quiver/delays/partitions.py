"""The delays of all partitions: opened when they are first needed, and at start-up where there are any."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from quiver.delays.partition.partition_delays import PartitionDelays, schedule_config
from quiver.delays.partition.read_ahead import MemoryShare
from quiver.model.errors import QuiverError, ShuttingDown
from quiver.model.topic import Topic
from quiver.storage.port import Storage
from quiver.system.clock import Clock
from quiver.system.pace import AT_ONCE, bounded_gather, paced
from quiver.topics.partitions import Partitions

logger = logging.getLogger(__name__)

T = TypeVar("T")
Key = tuple[int, int]
"""Topic id and partition."""
_SUFFIX = "-schedule"


class DelayPartitions:
    """`on_news` is called with a key when its delays are opened or have something due earlier than before."""

    def __init__(
        self, storage: Storage, partitions: Partitions, *, clock: Clock, on_news: Callable[[Key], None]
    ) -> None:
        self._storage = storage
        self._partitions = partitions
        self._clock = clock
        self._on_news = on_news
        self._share = MemoryShare()
        self._open: dict[Key, PartitionDelays] = {}
        self._opening: dict[Key, asyncio.Task[PartitionDelays]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._waiting: dict[Key, list[Callable[[PartitionDelays], None]]] = {}
        self.problems: dict[str, str] = {}
        """Delays that could not be opened, by the name of their partition."""

    async def open_existing(self, topics: list[Topic]) -> None:
        known: dict[int, Topic] = {topic.id: topic for topic in topics}

        async def open_one(place: tuple[Topic, int]) -> None:
            topic, number = place
            try:
                await self._begin_opening(topic, number)
            except (QuiverError, OSError) as error:
                logger.error("the delays of %s-%d are not available: %s", topic.name, number, error)
                self.problems[f"delays of {topic.name}-{number}"] = str(error)

        found = [log_id.split("/") for log_id in await self._storage.list_logs("topics")]
        named = [(int(words[1]), words[2]) for words in found if len(words) == 3 and words[2].endswith(_SUFFIX)]
        wanted = [(known[id], int(name.removesuffix(_SUFFIX))) for id, name in named if id in known]
        await bounded_gather(open_one, wanted)

    def get(self, key: Key) -> PartitionDelays | None:
        return self._open.get(key)

    def all(self) -> list[PartitionDelays]:
        return list(self._open.values())

    def of(self, topic_id: int) -> list[PartitionDelays]:
        """Those of a topic that are open, in order."""
        count = len(self._partitions.of(topic_id)) if self._open else 0
        return [delays for number in range(count) if (delays := self._open.get((topic_id, number))) is not None]

    def when_open(
        self, topic: Topic, number: int, call: "Callable[[PartitionDelays], asyncio.Future[T]]"
    ) -> "asyncio.Future[T]":
        """What `call` answers, now or as soon as the delays are open. Calls are made in the order they came."""
        key = (topic.id, number)
        delays = self._open.get(key)
        if delays is not None:
            return call(delays)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def begin(delays: PartitionDelays) -> None:
            try:
                call(delays).add_done_callback(lambda done: _pass_on(done, answer))
            except QuiverError as error:
                _fail(answer, error)

        self._waiting.setdefault(key, []).append(begin)
        self._begin_opening(topic, number).add_done_callback(lambda task: _give_up(task, answer))
        return answer

    async def reconfigure(self, topic: Topic) -> None:
        limits, config = self._partitions.limits_for(topic.config), schedule_config(topic.config)
        async for delays in paced(self.of(topic.id)):
            delays.schedule.reconfigure(config, limits)

    async def forget_topic(self, topic_id: int) -> None:
        """Ends all work on a topic, whose files are about to be removed."""
        opening = [task for key, task in self._opening.items() if key[0] == topic_id]
        await asyncio.gather(*opening, return_exceptions=True)
        gone = [key for key in self._open if key[0] == topic_id]
        await bounded_gather(lambda key: self._open.pop(key).abandon(), gone)

    async def close(self) -> None:
        opening = list(self._opening.values())
        await asyncio.gather(*opening, return_exceptions=True)
        await bounded_gather(_close, self.all())
        self._open.clear()

    def _begin_opening(self, topic: Topic, number: int) -> "asyncio.Task[PartitionDelays]":
        key = (topic.id, number)
        if key not in self._opening:
            self._opening[key] = asyncio.get_running_loop().create_task(self._open_one(topic, number))
        return self._opening[key]

    async def _open_one(self, topic: Topic, number: int) -> PartitionDelays:
        key = (topic.id, number)
        try:
            async with self._gate:
                delays = await PartitionDelays.open(
                    self._storage,
                    self._partitions.get(topic.id, number),
                    topic_id=topic.id,
                    number=number,
                    config=topic.config,
                    clock=self._clock,
                    limits=self._partitions.limits_for(topic.config),
                    share=self._share,
                    on_news=lambda: self._on_news(key),
                )
        except BaseException:
            self._waiting.pop(key, None)
            raise
        finally:
            del self._opening[key]
        self._open[key] = delays
        for call in self._waiting.pop(key, []):
            call(delays)
        self._on_news(key)
        return delays


async def _close(delays: PartitionDelays) -> None:
    try:
        await delays.close()
    except Exception as problem:
        logger.error("delays did not close cleanly: %s", problem)


def _pass_on(done: "asyncio.Future[T]", answer: "asyncio.Future[T]") -> None:
    error = done.exception()
    if error is not None:
        _fail(answer, error)
    elif not answer.done():
        answer.set_result(done.result())


def _give_up(opening: "asyncio.Task[PartitionDelays]", answer: "asyncio.Future[T]") -> None:
    error = ShuttingDown() if opening.cancelled() else opening.exception()
    if error is not None:
        _fail(answer, error)


def _fail(answer: "asyncio.Future[T]", error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # whoever waited may have gone
