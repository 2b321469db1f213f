"""Two processes on one storage and one coordination: each opens what it owns, and both know the same."""

import asyncio

import pytest

from quiver.broker.broker import Broker
from quiver.broker.settings import BrokerSettings
from quiver.cluster.placement import Placement
from quiver.model.errors import DiskFull, PartitionNotFound, TopicExists, TopicNotFound
from quiver.model.message import NewMessage
from quiver.model.topic import Topic
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions
from quiver.testing.memory_coordination import MemoryCoordination

WORKERS = 2


class Storage(MemoryStorage):
    broken = ""

    async def open_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        if log_id == self.broken:
            raise DiskFull(problem="no space left")
        return await super().open_log(log_id, options)


class Others:
    """The other worker, without a link in between."""

    exist = True

    def __init__(self, controller: Broker, other: Broker) -> None:
        self._controller, self._other = controller, other

    async def prepare(self, topic: Topic) -> None:
        await self._other.topic_admin.prepare(topic)

    async def take_back(self, topic: Topic) -> None:
        await self._other.topic_admin.take_back_prepared(topic.id)

    async def opened(self, topic: Topic) -> None:
        await self._other.metadata.view.reached(self._controller.metadata.view.revision)
        await self._other.topic_admin.opened(topic.id)

    async def ended(self, topic: Topic) -> None:
        await self._other.metadata.view.reached(self._controller.metadata.view.revision)
        await self._other.topic_admin.ended(topic.id)


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
async def workers(storage: Storage) -> list[Broker]:
    coordination = MemoryCoordination()
    return [await started(storage, coordination, worker) for worker in range(WORKERS)]


async def started(storage: Storage, coordination: MemoryCoordination, worker: int) -> Broker:
    settings = BrokerSettings(placement=Placement(worker, WORKERS))
    broker = Broker(storage, settings=settings, coordination=coordination)
    await broker.start()
    return broker


def numbers(broker: Broker, topic: Topic) -> list[int]:
    return [number for number, _ in broker._partitions.owned(topic.id)]


async def test_each_opens_its_own_partitions_and_gives_them_up(workers: list[Broker], storage: Storage) -> None:
    first, second = workers
    first.topic_admin.share_with(Others(first, second))
    topic = await first.create_topic("t", {"partitions": 4})
    assert [each.topic("t") for each in workers] == [topic, topic]
    assert sorted(numbers(first, topic) + numbers(second, topic)) == [0, 1, 2, 3]
    assert len(numbers(first, topic)) == 2
    for broker in workers:
        for number in range(4):
            message = NewMessage(value=b"x", partition=number)
            if number in numbers(broker, topic):
                await broker._partitions.get(topic.id, number).append_message(message)
            else:
                with pytest.raises(PartitionNotFound):
                    broker._partitions.get(topic.id, number)
    await first.add_partitions("t", 6)
    grown = first.topic("t")
    assert sorted(numbers(first, grown) + numbers(second, grown)) == [0, 1, 2, 3, 4, 5]
    await first.delete_topic("t")
    with pytest.raises(TopicNotFound):
        second.topic("t")
    assert numbers(second, topic) == []
    assert await storage.list_logs("topics") == []
    for broker in reversed(workers):
        await broker.stop()


async def test_a_topic_that_one_of_them_cannot_open_is_there_and_opened_later(
    workers: list[Broker], storage: Storage
) -> None:
    """The other one may have messages in it already."""
    first, second = workers
    first.topic_admin.share_with(Others(first, second))
    topic = await first.create_topic("a", {"partitions": 2})
    [number] = numbers(second, topic)
    storage.broken = f"topics/{topic.id + 1}/{1 - number}"  # the name decides which of them it is
    if number in [n for n in range(2) if Placement(1, WORKERS).owns_partition("b", n)]:
        storage.broken = f"topics/{topic.id + 1}/{number}"
    with pytest.raises(DiskFull):
        await first.create_topic("b", {"partitions": 2})
    storage.broken = ""
    with pytest.raises(TopicExists):
        await first.create_topic("b", {"partitions": 2})
    assert second.topic("b") == first.topic("b")


async def test_both_have_the_same_groups_and_different_ids(workers: list[Broker]) -> None:
    first, second = workers
    made = await asyncio.gather(
        *(workers[n % 2].groups.queue_group(f"g{n // 2}", "none") for n in range(10)),
        *(workers[n % 2].groups.queue_group(f"own{n}", "key") for n in range(10)),
    )
    for broker in workers:
        await broker.metadata.view.reached(max(each.metadata.view.revision for each in workers))
    assert first.groups.groups() == second.groups.groups()
    assert len({group.id for group in made}) == len({group.name for group in made}) == 15
    await asyncio.gather(
        first.groups.change_settings("own0", {"max_attempts": 2}),
        second.groups.change_settings("own0", {"backoff": "3s"}),
    )
    await second.metadata.view.reached(first.metadata.view.revision)
    assert first.groups.group("own0").settings.queue == {"max_attempts": 2, "backoff_ms": 3_000}
    assert second.groups.group("own0").settings == first.groups.group("own0").settings


async def test_producer_ids_of_both_differ(workers: list[Broker]) -> None:
    given = await asyncio.gather(*(workers[n % 2].init_producer() for n in range(100)))
    assert len(set(given)) == 100
