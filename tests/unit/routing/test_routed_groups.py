"""Groups of both kinds for people and tools, from any worker: list, describe, counts, reset, delete."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.routing.group_calls import COUNT, PARTITIONS, TOPIC, WANTS, fill, owned_by, partition_at

from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest, WorkerUnavailable
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, SettleRequest
from quiver.queues.receive import Received
from quiver.streams.admin import GroupSummary
from quiver.streams.reset import LikeGroup, ResetTarget
from quiver.testing.workers import WorkerSet

STREAM, OTHER = owned_by(1), owned_by(2)
QUEUE = "jobs"


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        await started[0].broker.create_topic(TOPIC, {"partitions": PARTITIONS})
        await fill(started, 5)
        yield started


async def receive(workers: WorkerSet, count: int, consumer: str = "c", asked: int = 0) -> list[Received]:
    request = ReceiveRequest([workers[0].broker.topic(TOPIC).id], QUEUE, consumer, max_messages=count, wait_ms=0)
    found: list[Received] = []
    while sum(one.run.end - one.run.start for one in found) < count:
        found += await workers[asked].broker.queues.receive(request)
    return found


async def commit(workers: WorkerSet, group: str, offset: int) -> None:
    offsets = {TOPIC: dict.fromkeys(range(PARTITIONS), offset)}
    await workers[2].broker.streams.commit(group, offsets, creates=True)


async def committed(workers: WorkerSet, group: str) -> set[int]:
    return set((await workers[0].broker.streams.committed(group))[TOPIC].values())


async def test_all_workers_list_all_groups(workers: WorkerSet) -> None:
    view = await workers[0].broker.streams.join(STREAM, WANTS)
    await commit(workers, OTHER, 3)
    await receive(workers, PARTITIONS * 5 - 2, "a")
    await receive(workers, 2, "b", asked=1)
    expected = [
        GroupSummary(STREAM, "stream", "stable", 1, view.generation, [TOPIC], 5 * PARTITIONS),
        GroupSummary(OTHER, "stream", "empty", 0, 0, [TOPIC], 2 * PARTITIONS),
        GroupSummary(QUEUE, "queue", "stable", 2, 0, [TOPIC], 0, 5 * PARTITIONS),
    ]
    expected.sort()
    topic = workers[0].broker.topic(TOPIC)
    for worker in range(COUNT):
        admin = workers[worker].broker.group_admin
        assert await admin.summaries() == expected
        assert await admin.summaries(1, 1) == expected[1:2]
        assert await admin.counts([topic.id]) == {topic.id: 3}
        details = await admin.describe(QUEUE)
        assert sorted(member.id for member in details.members) == ["a", "b"]
        assert [(lag.partition, lag.leased) for lag in details.partitions] == [(n, 5) for n in range(PARTITIONS)]


async def test_a_look_without_an_owner_names_it(workers: WorkerSet) -> None:
    await commit(workers, STREAM, 1)
    workers.kill(2)
    with pytest.raises(WorkerUnavailable, match="worker 2"):
        await workers[0].broker.group_admin.summaries()
    await workers.start(2)
    assert [summary.lag for summary in await workers[0].broker.group_admin.summaries()] == [4 * PARTITIONS]


@pytest.mark.parametrize(
    ("to", "new"),
    [(EARLIEST, 0), (LATEST, 5), (Position("offset", 4), 4), (2, 5), (-9, 0), (LikeGroup(OTHER), 1)],
)
async def test_a_stream_group_is_reset(workers: WorkerSet, to: ResetTarget, new: int) -> None:
    await commit(workers, STREAM, 3)
    await commit(workers, OTHER, 1)
    changes = await workers[0].broker.offset_reset.reset(STREAM, TOPIC, to, dry_run=True)
    assert [tuple(change) for change in changes] == [(n, 3, new) for n in range(PARTITIONS)]
    assert await committed(workers, STREAM) == {3}
    assert await workers[0].broker.offset_reset.reset(STREAM, TOPIC, to, dry_run=False) == changes
    assert await committed(workers, STREAM) == {new}


async def test_a_queue_group_is_reset(workers: WorkerSet) -> None:
    received = await receive(workers, 5 * PARTITIONS)
    await workers[1].broker.queues.settle(settlements(received))
    await commit(workers, STREAM, 2)
    reset = workers[2].broker.offset_reset.reset
    assert {change.old for change in await reset(QUEUE, TOPIC, LikeGroup(STREAM), dry_run=True)} == {5}
    await reset(QUEUE, TOPIC, LikeGroup(STREAM), dry_run=False)
    again = await receive(workers, 3 * PARTITIONS)
    assert sorted((one.run.partition, one.run.start, one.run.end) for one in again) == [
        (n, 2, 5) for n in range(PARTITIONS)
    ]
    await reset(STREAM, TOPIC, LikeGroup(QUEUE), dry_run=False)
    assert await committed(workers, STREAM) == {2}


async def test_a_reset_needs_all_owners_and_no_members(workers: WorkerSet) -> None:
    await commit(workers, STREAM, 3)
    await workers[0].broker.streams.join(OTHER, WANTS)
    with pytest.raises(InvalidRequest, match="has no position"):
        await workers[0].broker.offset_reset.reset(STREAM, TOPIC, LikeGroup(OTHER), dry_run=False)
    with pytest.raises(GroupNotEmpty):
        await workers[0].broker.offset_reset.reset(OTHER, TOPIC, EARLIEST, dry_run=False)
    workers.kill(2)
    resetting = asyncio.ensure_future(workers[0].broker.offset_reset.reset(STREAM, TOPIC, EARLIEST, dry_run=False))
    for _ in range(100):
        await asyncio.sleep(0)
    await workers.start(2)
    outcome = (await asyncio.gather(resetting, return_exceptions=True))[0]
    assert await committed(workers, STREAM) == {3 if isinstance(outcome, WorkerUnavailable) else 0}


async def test_groups_are_deleted_everywhere(workers: WorkerSet) -> None:
    view = await workers[0].broker.streams.join(STREAM, WANTS)
    for worker in range(COUNT):
        with pytest.raises(GroupNotEmpty):
            await workers[worker].broker.group_admin.delete(STREAM)
    await workers[2].broker.streams.members.leave(STREAM, view.member_id)
    await receive(workers, 5 * PARTITIONS)
    topic_id, group_id = workers[0].broker.topic(TOPIC).id, workers[0].local.groups.group(QUEUE).id
    waiting = asyncio.ensure_future(
        workers[1].broker.queues.receive(ReceiveRequest([topic_id], QUEUE, "c", max_messages=1, wait_ms=60_000))
    )
    while True:
        try:
            workers[2].local.queues.check_idle(QUEUE)
        except GroupNotEmpty:
            break
        await asyncio.sleep(0)
    with pytest.raises(GroupNotEmpty):
        await workers[0].broker.group_admin.delete(QUEUE)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    for group in (STREAM, QUEUE):
        while True:
            try:
                await workers[2].broker.group_admin.delete(group)
            except GroupNotEmpty:  # the other workers have not heard that nobody waits any more
                await asyncio.sleep(0)
            else:
                break
    number = partition_at(0)
    assert workers[0].local.queues.partition_queues(topic_id)[number].state(group_id) is None
    for worker in range(COUNT):
        with pytest.raises(GroupNotFound):
            await workers[worker].broker.streams.committed(STREAM)
    await commit(workers, STREAM, 2)
    assert await committed(workers, STREAM) == {2}


def settlements(received: list[Received]) -> list[SettleRequest]:
    return [
        SettleRequest(
            one.topic.id, one.run.partition, one.run.group_id, one.run.lease_id, ACK, [(one.run.start, one.run.end)]
        )
        for one in received
    ]
