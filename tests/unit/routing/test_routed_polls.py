"""Polls: members and commits at one worker, leases and acks at the owners of partitions."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.unit.routing.group_calls import (
    COUNT,
    PARTITIONS,
    TOPIC,
    WANTS,
    fill,
    journal_of,
    offsets,
    owned_by,
    partition_at,
    place,
    receipts,
)

from quiver.model.errors import GenerationMismatch, MemberNotFound, WorkerUnavailable
from quiver.model.position import Position
from quiver.model.settlement import ACK, NACK, Receipt
from quiver.records.read import open_frame
from quiver.routing.polling.polled_parts import all_received
from quiver.routing.polling.requests import AskedPart, TakeForMember
from quiver.streams.owners.port import Commit, PolledPartition
from quiver.testing.held_storage import Point
from quiver.testing.workers import WorkerSet

GROUP = owned_by(1)
ELSEWHERE = partition_at(2)
"""Neither the group's owner nor the worker that clients of these tests ask has it."""


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        await started[0].broker.create_topic(TOPIC, {"partitions": PARTITIONS})
        yield started


async def join(workers: WorkerSet, asked: int = 0) -> str:
    return (await workers[asked].broker.poll_members.join(GROUP, WANTS)).view.member_id


async def poll(
    workers: WorkerSet, member: str, timeout_ms: int = 0, limit: int = 100, asked: int = 0
) -> list[PolledPartition]:
    return await workers[asked].broker.poll.poll(GROUP, member, timeout_ms=timeout_ms, limit=limit)


async def settle(workers: WorkerSet, action: int, held: Sequence[Receipt], asked: int = 0) -> list[str | None]:
    outcomes = await workers[asked].broker.queues.settle_receipts(action, held, delay_ms=0)
    return [None if one.error is None else one.error.code for one in outcomes]


async def committed(workers: WorkerSet, asked: int = 0) -> dict[int, int]:
    return (await workers[asked].broker.streams.committed(GROUP)).get(TOPIC, {})


def all_of(count: int) -> list[tuple[int, int]]:
    return [(number, offset) for number in range(PARTITIONS) for offset in range(count)]


async def test_a_poll_gets_messages_of_all_owners(workers: WorkerSet) -> None:
    await fill(workers, 4)
    member = await join(workers)
    polled = await poll(workers, member)
    assert offsets(polled) == all_of(4)
    assert [len(open_frame(one.run.frame)) for part in polled for one in part.received] == [4] * PARTITIONS
    assert {part.next_offset for part in polled} == {4}
    assert await poll(workers, member) == []
    told = await workers[2].broker.poll_members.told(GROUP, member)
    assert told is not None
    assert len(told.assigned) == PARTITIONS


async def test_limits_hold_over_owners_and_partitions_take_turns(workers: WorkerSet) -> None:
    await fill(workers, 4)
    member = await join(workers)
    seen: list[tuple[int, int]] = []
    for _ in range(6):
        polled = offsets(await poll(workers, member, limit=4))
        assert len(polled) == 4
        seen += polled
    assert sorted(seen) == all_of(4)


async def test_acks_anywhere_move_the_position(workers: WorkerSet) -> None:
    await fill(workers, 3)
    member = await join(workers)
    held = receipts(await poll(workers, member))
    assert await committed(workers) == {}
    firsts = [receipt for receipt in held if receipt.offset == 0]
    lasts = [receipt for receipt in held if receipt.offset == 2]
    assert set(await settle(workers, ACK, firsts + lasts, asked=2)) == {None}
    for worker in range(COUNT):
        assert await committed(workers, worker) == dict.fromkeys(range(PARTITIONS), 1)
    middles = [receipt for receipt in held if receipt.offset == 1]
    assert set(await settle(workers, ACK, middles, asked=1)) == {None}
    assert await committed(workers) == dict.fromkeys(range(PARTITIONS), 3)


async def test_a_waiting_poll_gets_what_comes_elsewhere(workers: WorkerSet) -> None:
    member = await join(workers)
    for number in range(PARTITIONS):
        waiting = asyncio.ensure_future(poll(workers, member, timeout_ms=60_000))
        while not workers[1].peers._outgoing[2].in_flight:
            await asyncio.sleep(0)
        await fill(workers, 1, number)
        [receipt] = receipts(await asyncio.wait_for(waiting, 10))
        assert (receipt.partition, receipt.offset) == (number, 0)
        waiting = asyncio.ensure_future(poll(workers, member, timeout_ms=60_000))
        while not workers[1].peers._outgoing[2].in_flight:
            await asyncio.sleep(0)
        assert await settle(workers, NACK, [receipt]) == [None]
        [again] = receipts(await asyncio.wait_for(waiting, 10))
        assert (again.partition, again.attempt) == (number, 2)
        assert await settle(workers, ACK, [again]) == [None]


async def test_a_cancelled_poll_gives_back(workers: WorkerSet) -> None:
    member = await join(workers)
    waiting = asyncio.ensure_future(poll(workers, member, timeout_ms=60_000))
    while not workers[1].peers._outgoing[2].in_flight:
        await asyncio.sleep(0)
    waiting.cancel()
    await fill(workers, 2)
    polled = await poll(workers, member, timeout_ms=10_000)
    assert {one.run.attempt for part in polled for one in part.received} == {1}
    await workers[0].broker.queues.give_back(all_received(polled))
    again = await poll(workers, member)
    assert offsets(again) == all_of(2)
    assert {one.run.attempt for part in again for one in part.received} == {1}


async def test_a_poll_that_is_cancelled_at_any_point_leaves_no_lease(workers: WorkerSet) -> None:
    await fill(workers, 2)
    member, is_over, turns = await join(workers), False, 0
    await workers[0].broker.queues.give_back(all_received(await poll(workers, member)))
    while not is_over:
        polling = asyncio.ensure_future(poll(workers, member))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_over, turns = polling.done(), turns + 1
        polling.cancel()
        if is_over:
            await workers[0].broker.queues.give_back(all_received(polling.result()))
        await asyncio.gather(polling, return_exceptions=True)
        async with asyncio.timeout(10):
            while leased(workers):
                await asyncio.sleep(0)
    assert turns > 10, "it was cancelled while it waited for several owners"
    again = await poll(workers, member)
    assert offsets(again) == all_of(2)
    assert {one.run.attempt for part in again for one in part.received} == {1}


def leased(workers: WorkerSet) -> int:
    """Messages of the group that somebody has, or is about to get."""
    topic_id, group_id = workers[0].broker.topic(TOPIC).id, workers[0].local.groups.group(GROUP).id
    queues = [queue for n in range(COUNT) for queue in workers[n].local.queues.partition_queues(topic_id).values()]
    states = [state for queue in queues if (state := queue.state(group_id)) is not None]
    return sum(state.counts().leased for state in states)


async def test_a_commit_holds_for_leases_elsewhere_when_it_returns(workers: WorkerSet) -> None:
    await fill(workers, 4)
    member = await join(workers)
    held = [receipt for receipt in receipts(await poll(workers, member)) if receipt.partition == ELSEWHERE]
    await workers[0].broker.streams.commit(GROUP, {TOPIC: {ELSEWHERE: 2}}, member_id=member)
    assert await settle(workers, ACK, held, asked=2) == ["lease_lost", "lease_lost", None, None]
    await workers[0].broker.streams.commit(GROUP, {TOPIC: {ELSEWHERE: 1}}, member_id=member)
    again = await poll(workers, member)
    assert offsets(again) == [(ELSEWHERE, offset) for offset in (1, 2, 3)]


async def test_an_owner_of_partitions_that_was_down_follows_the_commit_when_it_opens(workers: WorkerSet) -> None:
    await fill(workers, 4)
    member = await join(workers)
    held = [receipt for receipt in receipts(await poll(workers, member)) if receipt.partition == ELSEWHERE]
    assert await settle(workers, ACK, held[:3]) == [None] * 3
    workers.kill(2)
    # As a transaction's decision: it counts although the partition cannot be asked.
    where = place(workers, ELSEWHERE)
    await workers[1].local.streams.offsets.commit_decided(GROUP, {where: (1, "")}, 7)
    await workers.start(2)
    queue = workers[2].local.queues.partition_queues(where.topic_id)[ELSEWHERE]
    group_id = workers[2].local.groups.group(GROUP).id
    assert queue.version(group_id) == workers[1].local.streams.group(GROUP).offsets[where].version
    assert await settle(workers, ACK, held[3:]) == ["lease_lost"]
    again = await poll(workers, member)
    assert offsets(again) == [(ELSEWHERE, offset) for offset in (1, 2, 3)]


@pytest.mark.parametrize("point", ["append", "appended"])
async def test_the_owner_of_the_group_dies_before_it_has_told_of_a_commit(workers: WorkerSet, point: Point) -> None:
    await fill(workers, 4)
    member = await join(workers)
    held = receipts(await poll(workers, member))
    assert set(await settle(workers, ACK, held)) == {None}
    hold = workers.storage(1).hold(journal_of(GROUP), point)
    commit = asyncio.ensure_future(workers[0].broker.streams.commit(GROUP, {TOPIC: {ELSEWHERE: 1}}, member_id=member))
    await hold.reached()
    workers.kill(1)
    with pytest.raises(WorkerUnavailable):
        await commit
    await workers.start(1)
    is_decided = point == "appended"
    assert await committed(workers) == dict.fromkeys(range(PARTITIONS), 4) | {ELSEWHERE: 1 if is_decided else 4}
    again = offsets(await poll(workers, member))
    assert again == ([(ELSEWHERE, offset) for offset in (1, 2, 3)] if is_decided else [])


@pytest.mark.parametrize("point", ["append", "appended"])
async def test_the_owner_of_a_partition_dies_while_it_leases(workers: WorkerSet, point: Point) -> None:
    await fill(workers, 3, ELSEWHERE)
    member = await join(workers)
    first = receipts(await poll(workers, member, limit=1))
    where = place(workers, ELSEWHERE)
    hold = workers.storage(2).hold(f"topics/{where.topic_id}/{ELSEWHERE}-delivery", point)
    polling = asyncio.ensure_future(poll(workers, member))
    await hold.reached()
    workers.kill(2)
    with pytest.raises(WorkerUnavailable):
        await polling
    await workers.start(2)
    assert await settle(workers, ACK, first) == [None]
    assert await committed(workers) == {ELSEWHERE: 1}
    await workers[0].broker.poll_members.leave(GROUP, member)
    other = await join(workers)
    assert offsets(await poll(workers, other)) == [(ELSEWHERE, 1), (ELSEWHERE, 2)]


async def test_a_take_of_an_earlier_generation_is_refused(workers: WorkerSet) -> None:
    await fill(workers, 2, ELSEWHERE)
    first = await join(workers)
    view = await workers[0].broker.poll_members.assignment(GROUP, first)
    where = place(workers, ELSEWHERE)
    await workers[0].broker.poll_members.leave(GROUP, first)
    second = await join(workers)
    held = receipts(await poll(workers, second))
    late = TakeForMember(GROUP, first, view.generation, [AskedPart(where, False, Commit(0, 0))], 10, 1 << 20)
    with pytest.raises(GenerationMismatch):
        await workers[1].peers.call(2, late)
    assert await settle(workers, ACK, held) == [None, None]


async def test_what_comes_for_a_member_that_lost_the_partition_is_given_back(workers: WorkerSet) -> None:
    await fill(workers, 3, ELSEWHERE)
    member = await join(workers)
    where = place(workers, ELSEWHERE)
    assert offsets(await poll(workers, member, limit=1)) == [(ELSEWHERE, 0)]
    hold = workers.storage(2).hold(f"topics/{where.topic_id}/{ELSEWHERE}-delivery", "append")
    polling = asyncio.ensure_future(poll(workers, member))
    await hold.reached()
    await workers[1].local.streams.members.leave(GROUP, member)
    hold.release()
    with pytest.raises(MemberNotFound):
        await polling
    other = await join(workers)
    again = await poll(workers, other)
    assert offsets(again) == [(ELSEWHERE, offset) for offset in range(3)]
    assert {one.run.start: one.run.attempt for part in again for one in part.received}[1] == 1


async def test_resets_move_a_group_whose_members_polled(workers: WorkerSet) -> None:
    await fill(workers, 5)
    member = await join(workers)
    held = receipts(await poll(workers, member))
    assert set(await settle(workers, ACK, held)) == {None}
    await workers[0].broker.poll_members.leave(GROUP, member)
    reset = workers[2].broker.offset_reset.reset
    changes = await reset(GROUP, TOPIC, Position("offset", 2), dry_run=True)
    assert [(change.partition, change.old, change.new) for change in changes] == [(n, 5, 2) for n in range(6)]
    assert await committed(workers) == dict.fromkeys(range(PARTITIONS), 5)
    await reset(GROUP, TOPIC, -2, dry_run=False)
    assert await committed(workers, 2) == dict.fromkeys(range(PARTITIONS), 3)
    again = await join(workers, asked=2)
    assert offsets(await poll(workers, again)) == [(n, offset) for n in range(PARTITIONS) for offset in (3, 4)]
