"""Redrives as jobs: what they cover, their pace, and how they end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.dead_letters import redrive_jobs
from quiver.dead_letters.redrive_jobs import JobProgress, RedrivePlan
from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterFilter
from quiver.model.errors import InvalidRequest, JobNotFound, Overloaded, ShuttingDown, TopicNotFound
from quiver.model.message import NewMessage
from quiver.storage.memory.storage import MemoryStorage

ALL = Search(DeadLetterFilter())


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("t", {"partitions": 2})
    await broker.create_topic("other", {"partitions": 1})
    await broker.create_topic("t.dlq", {"partitions": 2})
    await broker.publish("t.dlq", [NewMessage(value=b"%d" % n, partition=n % 2) for n in range(20)])
    yield broker
    await broker.stop()


async def ended(broker: Broker, id: str) -> JobProgress:
    while (job := await broker.redrive_jobs.get(id)).state == "running":
        await asyncio.sleep(0)
    return job


async def stored(broker: Broker, topic: str) -> int:
    return (await broker.describe(topic)).message_count


async def test_everything_goes_back_once(broker: Broker) -> None:
    begun = await broker.redrive_jobs.begin(RedrivePlan("t", ALL))
    job = await ended(broker, begun.id)
    assert (job.state, job.moved, job.total, job.error) == ("done", 20, 20, None)
    again = await ended(broker, (await broker.redrive_jobs.begin(RedrivePlan("t", ALL))).id)
    assert (again.state, again.moved, again.total) == ("done", 0, 0)
    assert [job.id for job in await broker.redrive_jobs.list()] == [again.id, begun.id]
    assert await stored(broker, "t") == 20


async def test_a_slow_one_can_be_cancelled_and_another_goes_on(broker: Broker) -> None:
    begun = await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "other", rate=0.001))
    while not (await broker.redrive_jobs.get(begun.id)).moved:
        await asyncio.sleep(0)
    job = await broker.redrive_jobs.cancel(begun.id)
    assert (job.state, job.moved, job.total) == ("cancelled", 1, 20)
    assert (await broker.redrive_jobs.cancel(begun.id)).state == "cancelled"
    rest = await ended(broker, (await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "other"))).id)
    assert (rest.moved, await stored(broker, "other")) == (19, 20)


async def test_two_at_the_same_time_share_the_dead_letters(broker: Broker) -> None:
    begun = [await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "other", rate=10**6)) for _ in range(2)]
    jobs = [await ended(broker, job.id) for job in begun]
    assert sum(job.moved for job in jobs) == 20
    assert await stored(broker, "other") == 20


async def test_a_limit(broker: Broker) -> None:
    job = await ended(broker, (await broker.redrive_jobs.begin(RedrivePlan("t", ALL, limit=7))).id)
    assert (job.moved, job.total) == (7, 7)


async def test_what_is_wrong_is_said(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicNotFound):
        await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "nowhere"))
    with pytest.raises(InvalidRequest):
        await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "t.dlq"))
    with pytest.raises(JobNotFound):
        await broker.redrive_jobs.get("x")
    monkeypatch.setattr(redrive_jobs, "MOST_RUNNING", 1)
    slow = await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "other", rate=0.001))
    with pytest.raises(Overloaded):
        await broker.redrive_jobs.begin(RedrivePlan("t", ALL))
    await broker.redrive_jobs.stop()
    assert (await broker.redrive_jobs.get(slow.id)).state == "cancelled"
    with pytest.raises(ShuttingDown):
        await broker.redrive_jobs.begin(RedrivePlan("t", ALL))


async def test_a_target_that_is_deleted_ends_it_with_a_sentence(broker: Broker) -> None:
    begun = await broker.redrive_jobs.begin(RedrivePlan("t", ALL, "other", rate=5))
    while not (await broker.redrive_jobs.get(begun.id)).moved:
        await asyncio.sleep(0)
    await broker.delete_topic("other")
    job = await ended(broker, begun.id)
    assert (job.state, "other" in (job.error or "")) == ("failed", True)
