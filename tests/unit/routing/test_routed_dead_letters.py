"""Dead letters, redrives and moves between workers: each message once, also when workers are killed."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.dead_letters.redrive_jobs import RedrivePlan
from quiver.dead_letters.search import Search
from quiver.model.dead_letter import DeadLetterFilter, DeadLetterId
from quiver.model.errors import JobNotFound, QuiverError
from quiver.model.message import NewMessage
from quiver.model.position import LATEST
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import REJECT, SettleRequest
from quiver.model.topic import Topic
from quiver.outbox.outbox import Target, mover_id
from quiver.outbox.targets import MovedFrame
from quiver.records.build import build_frame
from quiver.testing.workers import WorkerSet

COUNT, PARTITIONS = 3, 6
ALL = Search(DeadLetterFilter())


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        yield started


@pytest.fixture
async def topic(workers: WorkerSet) -> Topic:
    return await workers[1].broker.create_topic("jobs", {"partitions": PARTITIONS})


def owner(workers: WorkerSet, topic: Topic, partition: int) -> int:
    return next(
        number
        for number in range(COUNT)
        if workers[0].local.settings.placement.partition_worker(topic.name, partition) == number
    )


async def reject_some(workers: WorkerSet, topic: Topic, each: int = 2) -> None:
    """Messages of every partition become dead letters."""
    for number in range(PARTITIONS):
        frame = build_frame([b"%d.%d" % (number, place) for place in range(each)], timestamp_ms=1)
        await workers[owner(workers, topic, number)].broker.produce(topic.id, number, frame)
    received = await workers[0].broker.queues.receive(ReceiveRequest([topic.id], "g", "c", 1000))
    parts = [
        SettleRequest(
            topic.id, run.partition, run.group_id, run.lease_id, REJECT, [(run.start, run.end)], reason="bad"
        )
        for _, _, run in received
    ]
    assert not any(settlement.refused for settlement in await workers[0].broker.queues.settle(parts))


async def dead_letters(workers: WorkerSet, asked: int, count: int) -> list[bytes | None]:
    """Waits until there are so many."""
    while True:
        page = await workers[asked].broker.dead_letters.page("jobs", ALL)
        if page.total >= count:
            return sorted(each.value or b"" for each in page.dead_letters)
        await asyncio.sleep(0)


async def ends(workers: WorkerSet, topic: Topic) -> list[int]:
    return [
        await workers[0].broker.find_offset(topic.id, number, LATEST) for number in range(topic.config.partitions)
    ]


def values(each: int = 2) -> list[bytes]:
    return [b"%d.%d" % (number, place) for number in range(PARTITIONS) for place in range(each)]


async def test_dead_letters_of_all_owners_are_listed_in_one_order(workers: WorkerSet, topic: Topic) -> None:
    await reject_some(workers, topic)
    assert await dead_letters(workers, 2, 12) == values()
    broker = workers[1].broker
    whole = (await broker.dead_letters.page("jobs", ALL)).dead_letters
    assert [each.cursor for each in whole] == sorted(each.cursor for each in whole)
    newest = (await broker.dead_letters.page("jobs", ALL._replace(newest_first=True))).dead_letters
    assert newest == whole[::-1]
    found, after = [], None
    while True:
        page = await broker.dead_letters.page("jobs", ALL._replace(after=after), limit=5)
        found += page.dead_letters
        after = page.next
        if after is None:
            break
    assert found == whole
    assert (await broker.dead_letters.page("jobs", ALL, limit=3, skip=4)).dead_letters == whole[4:7]
    [group] = (await broker.dead_letters.errors("jobs", limit=100)).groups
    assert (group.reason, group.dead_letter_count) == ("rejected", 12)


async def test_a_redrive_takes_each_once(workers: WorkerSet, topic: Topic) -> None:
    await reject_some(workers, topic)
    await dead_letters(workers, 0, 12)
    goal = await workers[0].broker.create_topic("elsewhere", {"partitions": 5})
    counted = await workers[2].broker.dead_letters.redrive("jobs", ALL, limit=5, to="elsewhere", dry_run=True)
    assert (counted.dead_letter_count, len(counted.ids), counted.next is None) == (5, 5, False)
    taken = await workers[2].broker.dead_letters.redrive("jobs", ALL, limit=5, to="elsewhere")
    assert (taken.ids, taken.next) == (counted.ids, counted.next)
    at_once = await asyncio.gather(*(workers[n].broker.dead_letters.redrive("jobs", ALL) for n in range(COUNT)))
    assert sum(each.dead_letter_count for each in at_once) == 7
    while sum(await ends(workers, goal)) < 5 or sum(await ends(workers, topic)) < 12 + 7:
        await asyncio.sleep(0)
    assert (sum(await ends(workers, goal)), sum(await ends(workers, topic))) == (5, 19)
    assert await dead_letters(workers, 1, 0) == []
    gone = await workers[1].broker.dead_letters.purge("jobs", Search(DeadLetterFilter(ids=[(0, 0), (5, 1)])))
    assert (gone.dead_letter_count, gone.missing) == (0, [DeadLetterId(0, 0), DeadLetterId(5, 1)])


async def test_purged_dead_letters_are_named_by_their_owners(workers: WorkerSet, topic: Topic) -> None:
    await reject_some(workers, topic, each=3)
    await dead_letters(workers, 0, 18)
    middle = Search(DeadLetterFilter(ids=[(number, 1) for number in range(PARTITIONS)]))
    assert (await workers[2].broker.dead_letters.purge("jobs", middle)).dead_letter_count == PARTITIONS
    page = await workers[0].broker.dead_letters.removed("jobs", DeadLetterId(0, 0))
    assert page.runs == [(number, 1, 2) for number in range(PARTITIONS)]
    assert page.next is None


@pytest.mark.parametrize("victim", range(COUNT))
@pytest.mark.parametrize("turns", [0, 3, 8, 15, 30])
async def test_a_worker_is_killed_while_dead_letters_are_redriven(
    workers: WorkerSet, topic: Topic, victim: int, turns: int
) -> None:
    await reject_some(workers, topic)
    await dead_letters(workers, 0, 12)
    goal = await workers[0].broker.create_topic("elsewhere", {"partitions": 5})
    asked = (victim + 1) % COUNT
    redriving = asyncio.ensure_future(workers[asked].broker.dead_letters.redrive("jobs", ALL, to="elsewhere"))
    for _ in range(turns):
        await asyncio.sleep(0)
    workers.kill(victim)
    await workers.start(victim)
    await asyncio.gather(redriving, return_exceptions=True)
    while (await workers[asked].broker.dead_letters.page("jobs", ALL)).total:
        await workers[asked].broker.dead_letters.redrive("jobs", ALL, to="elsewhere")
    while any(queue.outbox.open for n in range(COUNT) for queue in workers[n].local.queues.all_partition_queues()):
        await asyncio.sleep(0)
    assert sum(await ends(workers, goal)) == 12, "each of them once"


async def test_a_repeated_move_is_stored_once(workers: WorkerSet, topic: Topic) -> None:
    number = next(n for n in range(PARTITIONS) if owner(workers, topic, n) == 2)
    frame = MovedFrame(mover_id("redrive", 77, 0), 0, [NewMessage(value=b"a", timestamp_ms=1)] * 3)
    target = Target(topic.id, number)
    moving = asyncio.ensure_future(workers[0].local.move_targets.append(target, frame))
    for _ in range(6):
        await asyncio.sleep(0)
    workers.kill(2)
    await workers.start(2)
    await asyncio.gather(moving, return_exceptions=True)
    for source in (0, 1, 2):
        await workers[source].local.move_targets.append(target, frame)
    longer = MovedFrame(frame.mover, 2, [NewMessage(value=b"b", timestamp_ms=1)] * 3)
    await workers[0].local.move_targets.append(target, longer)
    assert await workers[0].broker.find_offset(topic.id, number, LATEST) == 5
    await workers[0].broker.delete_topic("jobs")
    with pytest.raises(QuiverError, match="there is no topic"):
        await workers[0].local.move_targets.append(target, frame)


async def test_a_job_is_found_from_every_worker(workers: WorkerSet, topic: Topic) -> None:
    await reject_some(workers, topic)
    await dead_letters(workers, 0, 12)
    job = await workers[2].broker.redrive_jobs.begin(RedrivePlan("jobs", ALL))
    while (await workers[1].broker.redrive_jobs.get(job.id)).state == "running":
        await asyncio.sleep(0)
    for worker in range(COUNT):
        [listed] = await workers[worker].broker.redrive_jobs.list()
        assert (listed.id, listed.state, listed.moved, listed.total) == (job.id, "done", 12, 12)
        with pytest.raises(JobNotFound):
            await workers[worker].broker.redrive_jobs.get("0" * 16)
    assert (await workers[2].broker.redrive_jobs.cancel(job.id)).state == "done"
