"""Changes of topics: whoever depends on topics is told in order, and no topic stays half changed."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.coordination.metadata import Metadata

from quiver.model.errors import DiskFull, PartitionNotFound, ShuttingDown, TopicExists, TopicNotFound
from quiver.model.limits import Limits
from quiver.model.message import NewMessage
from quiver.model.topic import Topic, TopicConfig, TopicSize
from quiver.storage.memory.storage import MemoryLog, MemoryStorage
from quiver.storage.port import LogOptions
from quiver.system.clock import SystemClock
from quiver.system.randomness import SystemRandomness
from quiver.topics.admin import TopicAdmin
from quiver.topics.catalogue import TopicCatalogue
from quiver.topics.owners import NoOthers
from quiver.topics.partitions import Partitions


class Storage(MemoryStorage):
    """Opens logs slowly or not at all, where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.is_opening = asyncio.Event()

    async def open_log(self, log_id: str, options: LogOptions) -> MemoryLog:
        self.is_opening.set()
        await self.may_open.wait()
        if log_id == self.broken:
            raise DiskFull(problem="no space left")
        return await super().open_log(log_id, options)


class Subscriber:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, int]] = []

    async def topic_changed(self, topic: Topic) -> None:
        await asyncio.sleep(0)
        self.told.append(("changed", topic.name, topic.config.partitions))

    async def topic_purged(self, topic: Topic) -> None:
        self.told.append(("purged", topic.name, topic.config.partitions))

    async def topic_removed(self, topic: Topic) -> None:
        self.told.append(("removed", topic.name, topic.config.partitions))


class Bench:
    def __init__(self, storage: Storage) -> None:
        clock, limits = SystemClock(), Limits()
        self.storage = storage
        self.metadata = Metadata()
        self.catalogue = TopicCatalogue(
            self.metadata.view, clock=clock, randomness=SystemRandomness(), defaults=TopicConfig(), limits=limits
        )
        self.partitions = Partitions(storage, clock=clock, limits=limits)
        self.admin = TopicAdmin(self.catalogue, self.partitions, auto_create=True)
        self.subscriber = Subscriber()
        self.admin.subscribe(self.subscriber)

    async def start(self) -> "Bench":
        await self.metadata.open(self.storage)
        await self.catalogue.open()
        await self.admin.open()
        return self


@pytest.fixture
async def bench() -> Bench:
    return await Bench(Storage()).start()


async def test_subscribers_are_told_of_changes_in_order(bench: Bench) -> None:
    await asyncio.gather(
        bench.admin.create("t", {"partitions": 1}),
        bench.admin.alter("t", {"partitions": 2}),
        bench.admin.add_partitions("t", 4),
    )
    await bench.admin.purge("t")
    await bench.admin.delete("t")
    assert bench.subscriber.told == [
        ("changed", "t", 1),
        ("changed", "t", 2),
        ("changed", "t", 4),
        ("purged", "t", 4),
        ("removed", "t", 4),
    ]


async def test_the_sizes_follow_the_changes(bench: Bench) -> None:
    topic = await bench.admin.create("t", {"partitions": 1})
    await bench.admin.add_partitions("t", 3)
    assert bench.catalogue.sizes() == {"t": TopicSize(topic.id, 3)}
    again = await Bench(bench.storage).start()
    assert again.catalogue.sizes() == {"t": TopicSize(topic.id, 3)}
    await bench.admin.delete("t")
    assert bench.catalogue.sizes() == {}


async def test_a_topic_that_cannot_be_opened_does_not_exist(bench: Bench) -> None:
    bench.storage.broken = "topics/1/2"
    with pytest.raises(DiskFull):
        await bench.admin.create("t", {"partitions": 4})
    with pytest.raises(TopicNotFound):
        bench.catalogue.topic("t")
    assert ("changed", "t", 4) not in bench.subscriber.told
    topic = await bench.admin.create("t", {"partitions": 4})
    assert len(bench.partitions.of(topic.id)) == 4
    again = await Bench(bench.storage).start()
    assert [topic.name for topic in again.catalogue.topics()] == ["t"]
    assert again.admin.problem is None


class Others(NoOthers):
    """Another process, which uses a topic as soon as it is there, and ends before it could say so."""

    exist = True

    async def opened(self, topic: Topic) -> None:
        raise ShuttingDown()


@pytest.mark.parametrize("broken", [None, "topics/1/2"])
async def test_a_topic_that_others_may_use_already_is_not_taken_back(bench: Bench, broken: str | None) -> None:
    bench.admin.share_with(Others())
    bench.storage.broken = broken
    with pytest.raises(ShuttingDown if broken is None else DiskFull):
        await bench.admin.create("t", {"partitions": 4})
    bench.storage.broken = None
    bench.admin.share_with(NoOthers())
    with pytest.raises(TopicExists):
        await bench.admin.create("t", {"partitions": 4})
    assert len(bench.partitions.of(bench.catalogue.topic("t").id)) == 4
    again = await Bench(bench.storage).start()
    assert [topic.name for topic in again.catalogue.topics()] == ["t"]


async def test_a_topic_that_can_neither_be_opened_nor_deleted_is_deleted_later(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.storage.broken = "topics/1/0"

    async def refuse(topic: Topic) -> None:
        raise DiskFull(problem="no space left")

    with monkeypatch.context() as patch:
        patch.setattr(bench.catalogue, "take_back", refuse)
        with pytest.raises(DiskFull):
            await bench.admin.create("t", {"partitions": 1})
        with pytest.raises(DiskFull):
            await bench.admin.create("t", {"partitions": 1})
    with pytest.raises(TopicNotFound):
        await bench.admin.delete("t")
    topic = await bench.admin.create("t", {"partitions": 2})
    assert bench.catalogue.sizes() == {"t": TopicSize(topic.id, 2)}
    again = await Bench(bench.storage).start()
    assert again.catalogue.sizes() == {"t": TopicSize(topic.id, 2)}


async def test_a_topic_that_cannot_grow_stays_as_it_was(bench: Bench) -> None:
    topic = await bench.admin.create("t", {"partitions": 1})
    bench.storage.broken = f"topics/{topic.id}/2"
    with pytest.raises(DiskFull):
        await bench.admin.add_partitions("t", 3)
    assert bench.catalogue.topic("t").config.partitions == len(bench.partitions.of(topic.id)) == 1
    bench.storage.broken = None
    assert await bench.admin.add_partitions("t", 3) == (1, 3)


async def test_a_topic_whose_growth_cannot_be_recorded_stays_as_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await bench.admin.create("t", {"partitions": 1})

    async def refuse(name: str, settings: Mapping[str, Any]) -> Topic:
        raise DiskFull(problem="no space left")

    with monkeypatch.context() as patch:
        patch.setattr(bench.catalogue, "alter", refuse)
        with pytest.raises(DiskFull):
            await bench.admin.add_partitions("t", 3)
    assert len(bench.partitions.of(topic.id)) == 1
    with pytest.raises(PartitionNotFound):
        bench.partitions.get(topic.id, 2)
    assert await bench.admin.add_partitions("t", 3) == (1, 3)
    assert (await bench.partitions.get(topic.id, 2).append_message(NewMessage(value=b"x"))).base_offset == 0


async def test_nobody_finds_a_topic_whose_partitions_are_not_open(bench: Bench) -> None:
    bench.storage.may_open.clear()
    bench.storage.is_opening.clear()
    creating = asyncio.ensure_future(bench.admin.create("t", {"partitions": 2}))
    await bench.storage.is_opening.wait()
    assert not bench.catalogue.topics()
    assert not bench.catalogue.sizes()
    for find in (lambda: bench.catalogue.topic("t"), lambda: bench.catalogue.topic_by_id(1)):
        with pytest.raises(TopicNotFound):
            find()
    bench.storage.may_open.set()
    topic = await creating
    assert bench.catalogue.topics() == [topic]
    assert bench.catalogue.sizes() == {"t": TopicSize(topic.id, 2)}


async def test_a_change_goes_on_when_the_caller_does_not_wait(bench: Bench) -> None:
    bench.storage.may_open.clear()
    bench.storage.is_opening.clear()
    creating = asyncio.ensure_future(bench.admin.create("t", {"partitions": 1}))
    await bench.storage.is_opening.wait()
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    bench.storage.may_open.set()
    await bench.admin.ensure("t")
    await bench.admin.alter("t", {"retention": "1h"})
    assert len(bench.partitions.of(bench.catalogue.topic("t").id)) == 1


async def test_a_stop_finishes_the_change_that_runs_and_refuses_others(bench: Bench) -> None:
    bench.storage.may_open.clear()
    bench.storage.is_opening.clear()
    running = asyncio.ensure_future(bench.admin.create("first", {"partitions": 1}))
    await bench.storage.is_opening.wait()
    waiting = asyncio.ensure_future(bench.admin.create("second", {"partitions": 1}))
    await asyncio.sleep(0)
    stopping = asyncio.ensure_future(bench.admin.stop())
    await asyncio.sleep(0)
    bench.storage.may_open.set()
    await stopping
    assert (await running).name == "first"
    for change in (waiting, bench.admin.delete("first"), bench.admin.purge("first")):
        with pytest.raises(ShuttingDown):
            await change


async def test_a_purge_is_a_change_like_others(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await bench.admin.create("t", {"partitions": 1})
    await bench.partitions.get(topic.id, 0).append_message(NewMessage(value=b"x"))
    is_purging, may_purge = asyncio.Event(), asyncio.Event()
    roll = MemoryLog.roll

    async def roll_later(log: MemoryLog) -> None:
        is_purging.set()
        await may_purge.wait()
        await roll(log)

    monkeypatch.setattr(MemoryLog, "roll", roll_later)
    purging = asyncio.ensure_future(bench.admin.purge("t"))
    await is_purging.wait()
    purging.cancel()  # it goes on, and those that come after it wait
    deleting = asyncio.ensure_future(bench.admin.delete("t"))
    creating = asyncio.ensure_future(bench.admin.create("t", {"partitions": 2}))
    purging_again = asyncio.ensure_future(bench.admin.purge("t"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.catalogue.topics() == [topic]
    may_purge.set()
    await asyncio.gather(deleting, creating, purging_again)
    told = [each for each in bench.subscriber.told if each[0] != "removed"]  # files are removed in the background
    assert told == [("changed", "t", 1), ("purged", "t", 1), ("changed", "t", 2), ("purged", "t", 2)]
    assert bench.subscriber.told.index(("purged", "t", 1)) < bench.subscriber.told.index(("removed", "t", 1))


async def test_files_without_a_topic_are_a_problem_and_their_id_is_not_used(bench: Bench) -> None:
    await bench.storage.open_log("topics/7/0", LogOptions())
    again = await Bench(bench.storage).start()
    assert "topic ids [7]" in str(again.admin.problem)
    assert (await again.admin.create("t", {})).id == 8
