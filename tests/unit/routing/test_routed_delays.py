"""Delays and schedules of a broker with several workers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import DelayedNotFound, InvalidRequest, ScheduleExists, ScheduleNotFound
from quiver.model.message import NewMessage
from quiver.model.position import LATEST
from quiver.model.schedule import Schedule, ScheduleChanges
from quiver.model.topic import Topic
from quiver.testing.workers import WorkerSet

COUNT, PARTITIONS = 3, 6


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        yield started


@pytest.fixture
async def topic(workers: WorkerSet) -> Topic:
    return await workers[1].broker.create_topic("later", {"partitions": PARTITIONS})


async def delay(workers: WorkerSet, topic: Topic, partition: int, *times_ms: int) -> None:
    worker = workers[0].local.settings.placement.partition_worker(topic.name, partition)
    messages = [NewMessage(value=b"x", partition=partition, deliver_at_ms=at_ms) for at_ms in times_ms]
    await workers[worker].local.publish(topic.name, messages)


async def end(workers: WorkerSet, topic: Topic) -> int:
    return sum([await workers[0].broker.find_offset(topic.id, number, LATEST) for number in range(PARTITIONS)])


async def test_delays_of_all_owners_are_listed_in_one_order(workers: WorkerSet, topic: Topic) -> None:
    far_ms = workers[0].local.clock.now_ms() + 3_600_000
    for number in range(PARTITIONS):
        await delay(workers, topic, number, far_ms + number % 2, far_ms + 10 * number, far_ms + 7)
    whole = (await workers[2].broker.delays.page("later", skip=0, limit=100)).messages
    assert [(each.deliver_at_ms, each.partition) for each in whole] == sorted(
        (far_ms + at, number) for number in range(PARTITIONS) for at in (number % 2, 10 * number, 7)
    )
    for skip in range(0, 20, 3):
        page = await workers[skip % COUNT].broker.delays.page("later", skip=skip, limit=4)
        assert (page.messages, page.total) == (whole[skip : skip + 4], 18)
    stats = await workers[1].broker.delays.stats()
    assert (stats.pending, stats.scheduled, stats.waiting_by_topic) == (18, 18, {"later": 18})


async def test_a_delay_is_changed_at_its_owner(workers: WorkerSet, topic: Topic) -> None:
    far_ms = workers[0].local.clock.now_ms() + 3_600_000
    for number in range(PARTITIONS):
        await delay(workers, topic, number, far_ms)
    with pytest.raises(InvalidRequest, match="several partitions"):
        await workers[0].broker.delays.get("later", None, 0)
    for number in range(PARTITIONS):
        broker = workers[number % COUNT].broker
        assert (await broker.delays.get("later", number, 0)).state == "pending"
        assert await broker.delays.reschedule("later", number, [0, 9], far_ms + 5) == {0}
        assert (await broker.delays.get("later", number, 0)).deliver_at_ms == far_ms + 5
        assert await broker.delays.cancel("later", number, [0, 9]) == {0}
        assert (await broker.delays.get("later", number, 0)).state == "cancelled"
    with pytest.raises(DelayedNotFound):
        await workers[0].broker.delays.get("later", None, 9)


async def test_due_messages_arrive_once_although_their_worker_is_killed(workers: WorkerSet, topic: Topic) -> None:
    due_ms = workers[0].local.clock.now_ms() + 200
    for number in range(PARTITIONS):
        await delay(workers, topic, number, *[due_ms] * 5)
    while await end(workers, topic) == 0:
        await asyncio.sleep(0)
    for victim in (1, 2, 0):
        workers.kill(victim)
        await workers.start(victim)
    while await end(workers, topic) < 5 * PARTITIONS:
        await asyncio.sleep(0)
    assert await end(workers, topic) == 5 * PARTITIONS


async def test_schedules_are_those_of_worker_0(workers: WorkerSet, topic: Topic) -> None:
    wanted = Schedule(name="s", cron="@every 1h", topic="later", value=b"v")
    await workers[2].broker.schedules.add(wanted)
    with pytest.raises(ScheduleExists):
        await workers[1].broker.schedules.add(wanted)
    changed = await workers[1].broker.schedules.alter("s", ScheduleChanges(value=b"w"))
    assert (changed.schedule.value, changed.schedule.cron) == (b"w", "@every 1h")
    for fired in range(1, 9):  # one partition after the other, on all workers
        assert (await workers[fired % COUNT].broker.schedules.run("s")).fired_count == fired
    assert await end(workers, topic) == 8
    assert [state.schedule.name for state in await workers[0].broker.schedules.list()] == ["s"]
    await workers[2].broker.schedules.remove("s")
    with pytest.raises(ScheduleNotFound):
        await workers[1].broker.schedules.get("s")


@pytest.mark.parametrize("victim", range(COUNT))
async def test_a_firing_arrives_once_although_a_worker_is_killed(
    workers: WorkerSet, topic: Topic, victim: int
) -> None:
    await workers[0].broker.schedules.add(Schedule(name="s", cron="@every 1h", topic="later", value=b"v"))
    for fired in range(1, 7):
        running = asyncio.ensure_future(workers[0].broker.schedules.run("s"))
        for _ in range(3 * fired):
            await asyncio.sleep(0)
        workers.kill(victim)
        await workers.start(victim)
        await asyncio.gather(running, return_exceptions=True)
    fired_count = (await workers[0].broker.schedules.get("s")).fired_count
    while workers[0].local.schedules.on_the_way:
        await asyncio.sleep(0)
    assert await end(workers, topic) == fired_count
    assert victim == 0 or fired_count == 6
