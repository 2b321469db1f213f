"""Topics whose partitions several workers own, with failures of single workers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import DiskFull, TopicNotFound, WorkerUnavailable
from quiver.model.message import NewMessage
from quiver.storage.memory.storage import MemoryLog
from quiver.storage.port import LogOptions
from quiver.testing.held_storage import HeldStorage
from quiver.testing.workers import WorkerSet
from quiver.topics import follower

COUNT = 3


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        yield started


def break_opening(monkeypatch: pytest.MonkeyPatch, storage: HeldStorage) -> None:
    async def open_log(log_id: str, options: LogOptions) -> MemoryLog:
        raise DiskFull(problem="no space left")

    monkeypatch.setattr(storage, "open_log", open_log)


async def logs(workers: WorkerSet) -> list[str]:
    return [log_id for n in range(COUNT) for log_id in await workers.storage(n).list_logs("topics")]


async def test_a_growth_that_one_owner_cannot_carry_out_leaves_nothing(
    workers: WorkerSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await workers[0].broker.create_topic("t", {"partitions": 1})
    with monkeypatch.context() as broken:
        break_opening(broken, workers.storage(2))
        with pytest.raises(DiskFull):
            await workers[1].broker.add_partitions("t", 6)
    for n in range(COUNT):
        assert workers[n].broker.topic("t") == topic
        partitions = workers[n].local.topic_admin._partitions
        assert not partitions._added
    assert await workers[1].broker.add_partitions("t", 6) == (1, 6)
    published = await workers[1].broker.publish("t", [NewMessage(value=b"x", partition=n) for n in range(6)])
    assert [getattr(each, "offset", None) for each in published] == [0] * 6


async def test_the_files_of_a_deleted_topic_go_when_all_have_ended(workers: WorkerSet) -> None:
    await workers[0].broker.create_topic("t", {"partitions": 6})
    assert len(await logs(workers)) == 6
    await workers[2].broker.delete_topic("t")
    assert await logs(workers) == []
    topic = await workers[1].broker.create_topic("t", {"partitions": 6})
    workers.kill(1)
    deleting = asyncio.ensure_future(workers[2].broker.delete_topic("t"))
    while workers[0].local.topics():
        await asyncio.sleep(0)
    assert any(log_id.startswith(f"topics/{topic.id}/") for log_id in await workers.storage(0).list_logs("topics"))
    await workers.start(1)
    await deleting
    assert await workers.storage(0).list_logs("topics") == []
    assert workers[0].local.metadata.catalogue.deleting() == []


async def test_an_owner_that_could_not_open_a_topic_tries_again(
    workers: WorkerSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "_AGAIN_SECONDS", 0.01)
    await workers[0].broker.create_topic("t", {"partitions": 3})
    with monkeypatch.context() as broken:
        break_opening(broken, workers.storage(1))
        await workers[0].local.metadata.catalogue.create("u", {"partitions": 3})
        while not workers[1].local.topic_admin.follower.failed:
            await asyncio.sleep(0)
        with pytest.raises(TopicNotFound):
            workers[1].broker.topic("u")
    while workers[1].local.topic_admin.follower.failed:
        await asyncio.sleep(0)
    assert workers[1].broker.topic("u").config.partitions == 3


async def test_a_purge_and_a_compaction_reach_all_owners(workers: WorkerSet) -> None:
    await workers[0].broker.create_topic("t", {"partitions": 6, "cleanup": "compact"})
    messages = [NewMessage(value=b"x", key=b"k", partition=n % 6) for n in range(30)]
    await workers[1].broker.publish("t", messages)
    done = await workers[2].broker.compact_topic("t")
    assert list(done.partitions) == list(range(6))
    assert (done.records_before, done.records_after) == (30, 6)
    stats = await workers[1].broker.stats()
    assert [(each.topic.name, each.message_count) for each in stats.topics] == [("t", 6)]
    await workers[2].broker.purge_topic("t")
    assert (await workers[0].broker.describe("t")).message_count == 0


async def test_a_change_of_a_topic_does_not_hold_up_the_end_of_all_workers(workers: WorkerSet) -> None:
    """The other owners have stopped first, and nobody follows them."""
    await workers[0].broker.create_topic("t", {"partitions": 1})
    workers.kill(1)
    growing = asyncio.ensure_future(workers[0].broker.add_partitions("t", 6))
    while not workers[0].local.topic_admin._change.locked():
        await asyncio.sleep(0)
    workers[0].peers.end()
    with pytest.raises(WorkerUnavailable):
        await asyncio.wait_for(growing, 5)  # it would wait for ten seconds for a worker that is replaced
    await workers.start(1)
