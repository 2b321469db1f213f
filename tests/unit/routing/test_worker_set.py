"""Workers in one loop: calls reach owners, and workers that are replaced are found again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.links import packet_channel
from quiver.model.errors import TopicNotFound, WorkerUnavailable
from quiver.model.position import EARLIEST, LATEST
from quiver.model.topic import Topic
from quiver.records.build import build_frame
from quiver.testing.workers import WorkerSet

COUNT = 3


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        yield started


async def ends(workers: WorkerSet, topic: Topic, asked: int) -> list[int]:
    broker = workers[asked].broker
    return [await broker.find_offset(topic.id, n, LATEST) for n in range(topic.config.partitions)]


async def test_a_topic_is_there_for_all_when_it_is_created(workers: WorkerSet) -> None:
    topic = await workers[2].broker.create_topic("t", {"partitions": 4})
    for worker in range(COUNT):
        assert workers[worker].broker.topic("t") == topic
        assert await ends(workers, topic, worker) == [0] * 4
    await workers[1].broker.add_partitions("t", 7)
    for worker in range(COUNT):
        assert await ends(workers, workers[worker].broker.topic("t"), worker) == [0] * 7
    await workers[1].broker.delete_topic("t")
    for worker in range(COUNT):
        with pytest.raises(TopicNotFound):
            workers[worker].broker.topic("t")


async def test_frames_of_one_worker_are_written_in_order(workers: WorkerSet) -> None:
    topic = await workers[0].broker.create_topic("t", {"partitions": 3})
    futures = [
        workers[1].broker.produce(
            topic.id, number % 3, build_frame([b"%d" % number], timestamp_ms=1), partition_count=3
        )
        for number in range(60)
    ]
    appended = await asyncio.gather(*futures)
    assert [each.base_offset for each in appended] == [number // 3 for number in range(60)]
    details = await workers[2].broker.describe("t")
    assert [part.end_offset for part in details.partitions] == [20, 20, 20]
    assert details.message_count == 60


async def test_worker_0_is_replaced(workers: WorkerSet) -> None:
    topic = await workers[1].broker.create_topic("t", {"partitions": 3})
    await asyncio.gather(
        *(workers[1].broker.produce(topic.id, n, build_frame([b"x"], timestamp_ms=1)) for n in range(3))
    )
    workers.kill(0)
    pending = asyncio.ensure_future(workers[2].broker.create_topic("later", {"partitions": 3}))
    await asyncio.sleep(0)
    await workers.start(0)
    try:
        later = await pending
    except WorkerUnavailable:  # it was on its way when the link broke
        later = await workers[2].broker.create_topic("later", {"partitions": 3})
    for worker in range(COUNT):
        assert workers[worker].broker.topic("later") == later
        assert await ends(workers, topic, worker) == [1, 1, 1]


async def test_a_topic_is_created_while_an_owner_is_replaced(workers: WorkerSet) -> None:
    workers.kill(1)
    creating = asyncio.ensure_future(workers[2].broker.create_topic("t", {"partitions": 3}))
    while not workers[0].local.metadata.catalogue.stored():
        await asyncio.sleep(0)
    await workers.start(1)
    topic = await creating
    assert await ends(workers, topic, 1) == [0, 0, 0]


async def test_workers_start_before_worker_0() -> None:
    workers = WorkerSet(2)
    starting = asyncio.ensure_future(workers.start(1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not starting.done()
    await workers.start(0)
    await starting
    async with workers:
        await workers[1].broker.create_topic("t", {})
        assert workers[0].broker.node_id == workers[1].broker.node_id != ""


async def test_every_worker_knows_of_a_change_when_it_returns(workers: WorkerSet) -> None:
    for n in range(30):
        group = await workers[n % COUNT].broker.groups.queue_group(f"g{n}", "none")
        for worker in range(COUNT):
            assert workers[worker].broker.groups.group(f"g{n}") == group


async def test_partitions_of_a_worker_that_is_gone_are_offline(workers: WorkerSet) -> None:
    await workers[0].broker.create_topic("t", {"partitions": 3})
    workers.kill(2)
    owned = [n for n in range(3) if workers[0].local.settings.placement.partition_worker("t", n) == 2]
    details = await workers[0].broker.describe("t")
    assert [part.partition for part in details.partitions if part.offline] == owned
    assert details.partitions[owned[0]].offline == "worker 2 has not responded"


async def test_a_worker_that_hangs_is_given_up(workers: WorkerSet, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await workers[0].broker.create_topic("t", {"partitions": 3})
    [number] = [n for n in range(3) if workers[0].local.settings.placement.partition_worker("t", n) == 2]
    monkeypatch.setattr(packet_channel, "PING_SECONDS", 0.01)
    workers.kill(2)  # links that are made now wait for the next worker
    with pytest.raises(WorkerUnavailable):
        await workers[0].broker.find_offset(topic.id, number, EARLIEST)
    with pytest.raises(WorkerUnavailable, match=r"has not responded for 0\.05 s"):
        await workers[0].broker.find_offset(topic.id, number, EARLIEST)
    await workers.start(2)
    assert await workers[0].broker.find_offset(topic.id, number, EARLIEST) == 0


async def test_a_worker_that_stops_with_the_others_waits_for_nobody(workers: WorkerSet) -> None:
    topic = await workers[0].broker.create_topic("t", {"partitions": 3})
    [number] = [n for n in range(3) if workers[0].local.settings.placement.partition_worker("t", n) == 2]
    assert await workers[0].broker.find_offset(topic.id, number, EARLIEST) == 0
    workers[0].peers.end()
    assert await workers[0].broker.find_offset(topic.id, number, EARLIEST) == 0
    workers.kill(2)
    with pytest.raises(WorkerUnavailable, match=r"is gone|cannot be reached"):
        await workers[0].broker.find_offset(topic.id, number, EARLIEST)
    with pytest.raises(WorkerUnavailable, match="has stopped"):
        await workers[0].broker.find_offset(topic.id, number, EARLIEST)
