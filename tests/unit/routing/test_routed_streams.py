"""Members and commits of a group at one worker, its partitions at others."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.routing.group_calls import (
    COUNT,
    PARTITIONS,
    TOPIC,
    WANTS,
    fill,
    journal_of,
    owned_by,
    partition_at,
    place,
    stable,
)

from quiver.model.errors import (
    GenerationMismatch,
    GroupNotFound,
    InvalidRequest,
    MemberFenced,
    PartitionNotFound,
    WorkerUnavailable,
)
from quiver.model.names import TopicPartition
from quiver.model.position import LATEST
from quiver.streams.member import Subscription
from quiver.streams.membership import JoinOptions
from quiver.testing.held_storage import Point
from quiver.testing.workers import WorkerSet


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        await started[0].broker.create_topic(TOPIC, {"partitions": PARTITIONS})
        yield started


async def test_members_at_all_workers_share_the_partitions(workers: WorkerSet) -> None:
    group = owned_by(1)
    await fill(workers, 5)
    views = [await workers[n].broker.streams.join(group, WANTS) for n in range(COUNT)]
    settled = await stable(workers, group, *views)
    assert len({view.generation for view in settled}) == 1
    assigned = [part for view in settled for part in view.assigned]
    assert sorted(assigned) == [place(workers, n) for n in range(PARTITIONS)]
    for number, view in enumerate(settled):
        streams = workers[number].broker.streams
        assert await streams.next_offsets(group, view.assigned) == dict.fromkeys(view.assigned, 0)
        await streams.commit_partitions(
            group, dict.fromkeys(view.assigned, (3, "note")), member_id=view.member_id, generation=view.generation
        )
    for worker in range(COUNT):
        assert await workers[worker].broker.streams.committed(group) == {TOPIC: dict.fromkeys(range(PARTITIONS), 3)}
    details = await workers[2].broker.group_admin.describe(group)
    assert [(lag.committed, lag.end_offset, lag.messages) for lag in details.partitions] == [(3, 5, 2)] * PARTITIONS
    assert {lag.owner for lag in details.partitions} == {view.member_id for view in settled}


async def test_a_member_waits_at_another_worker_for_the_next_assignment(workers: WorkerSet) -> None:
    group = owned_by(2)
    first = await workers[0].broker.streams.join(group, WANTS)
    waiting = asyncio.ensure_future(workers[0].broker.streams.members.next_view(group, first, 60_000))
    second = await workers[1].broker.streams.join(group, WANTS)
    seen = await asyncio.wait_for(waiting, 10)
    assert seen.revoke
    assert seen.generation == second.generation
    again = asyncio.ensure_future(workers[0].broker.streams.members.next_view(group, seen, 60_000))
    while not workers[0].peers._outgoing[2].in_flight:
        await asyncio.sleep(0)
    again.cancel()
    await workers[1].broker.streams.members.leave(group, second.member_id)
    [alone] = await stable(workers, group, seen)
    assert len(alone.assigned) == PARTITIONS


async def test_a_lost_connection_is_told_to_the_owner(workers: WorkerSet) -> None:
    group = owned_by(1)
    view = await workers[0].broker.streams.join(group, WANTS)
    workers[0].broker.streams.members.connection_lost(group, view.member_id)
    while True:
        membership = await workers[2].broker.group_admin.membership(group)
        if membership.members[view.member_id].disconnected_at_ms is not None:
            break
        await asyncio.sleep(0)
    await workers[2].broker.streams.members.heartbeat(group, view.member_id)
    membership = await workers[2].broker.group_admin.membership(group)
    assert membership.members[view.member_id].disconnected_at_ms is None


async def test_offsets_are_checked_against_ends_elsewhere(workers: WorkerSet) -> None:
    group = owned_by(0)
    await fill(workers, 4)
    for number in range(PARTITIONS):
        with pytest.raises(InvalidRequest, match=f"offset 5 of {TOPIC}-{number} is not between 0 and the log end 4"):
            await workers[2].broker.streams.commit(group, {TOPIC: {number: 5}}, creates=True)
    with pytest.raises(GroupNotFound):
        await workers[1].broker.streams.committed(group)
    with pytest.raises(PartitionNotFound):
        await workers[2].broker.streams.commit_partitions(group, {place(workers, PARTITIONS): (0, "")}, creates=True)
    await workers[2].broker.streams.commit(group, {TOPIC: {n: n % 5 for n in range(PARTITIONS)}}, creates=True)
    assert await workers[1].broker.streams.committed(group) == {TOPIC: {n: n % 5 for n in range(PARTITIONS)}}


async def test_a_group_begins_where_partitions_elsewhere_end(workers: WorkerSet) -> None:
    group = owned_by(1)
    await fill(workers, 4)
    view = await workers[0].broker.streams.join(group, WANTS, JoinOptions(start=LATEST))
    assert set((await workers[2].broker.streams.next_offsets(group, view.assigned)).values()) == {4}


async def test_groups_follow_topics_and_partitions_wherever_they_are_made(workers: WorkerSet) -> None:
    wants = Subscription(client_id="c", pattern="ord.*")
    groups = [owned_by(worker) for worker in range(COUNT)]
    views = [await workers[0].broker.streams.join(group, wants) for group in groups]
    await workers[2].broker.add_partitions(TOPIC, PARTITIONS + 2)
    topic = await workers[1].broker.create_topic("ordinary", {"partitions": 2})
    expected = {place(workers, n) for n in range(PARTITIONS + 2)} | {TopicPartition(topic.id, n) for n in range(2)}
    for group, view in zip(groups, views, strict=True):
        while view.assigned != expected:
            view = await workers[1].broker.streams.members.next_view(group, view, 1000)
        assert await workers[2].broker.streams.next_offsets(group, expected) == dict.fromkeys(expected, 0)


async def test_two_groups_of_one_name_are_never_made(workers: WorkerSet) -> None:
    group = owned_by(1)
    joins = [workers[n % COUNT].broker.streams.join(group, WANTS) for n in range(6)]
    views = await asyncio.gather(*joins)
    membership = await workers[0].broker.group_admin.membership(group)
    assert membership.members.keys() == {view.member_id for view in views}
    assert membership.generation == 6


@pytest.mark.parametrize("point", ["append", "appended"])
async def test_the_owner_of_a_group_dies_in_a_commit(workers: WorkerSet, point: Point) -> None:
    group = owned_by(1)
    await fill(workers, 9)
    view = await workers[0].broker.streams.join(group, WANTS)
    streams = workers[0].broker.streams
    await streams.commit_partitions(group, dict.fromkeys(view.assigned, (2, "")), member_id=view.member_id)
    hold = workers.storage(1).hold(journal_of(group), point)
    commit = asyncio.ensure_future(
        streams.commit_partitions(group, dict.fromkeys(view.assigned, (7, "")), member_id=view.member_id)
    )
    await hold.reached()
    workers.kill(1)
    with pytest.raises(WorkerUnavailable):
        await commit
    await workers.start(1)
    decided = 2 if point == "append" else 7
    for worker in range(COUNT):
        committed = await workers[worker].broker.streams.committed(group)
        assert committed == {TOPIC: dict.fromkeys(range(PARTITIONS), decided)}
    again = await streams.members.heartbeat(group, view.member_id)
    assert (again.generation, again.assigned) == (view.generation, view.assigned)
    await streams.commit_partitions(group, dict.fromkeys(view.assigned, (8, "")), member_id=view.member_id)
    assert await streams.committed(group) == {TOPIC: dict.fromkeys(range(PARTITIONS), 8)}


@pytest.mark.parametrize("point", ["append", "appended"])
async def test_the_owner_of_a_group_dies_in_a_rebalance(workers: WorkerSet, point: Point) -> None:
    """Whatever was journaled counts, and whoever was told of a generation is never told of it again with other
    partitions."""
    group = owned_by(2)
    first = await workers[0].broker.streams.join(group, WANTS)
    hold = workers.storage(2).hold(journal_of(group), point)
    joining = asyncio.ensure_future(workers[1].broker.streams.join(group, WANTS))
    await hold.reached()
    seen = await workers[0].broker.streams.members.heartbeat(group, first.member_id)
    assert seen.generation == first.generation
    workers.kill(2)
    with pytest.raises(WorkerUnavailable):
        await joining
    await workers.start(2)
    membership = await workers[0].broker.group_admin.membership(group)
    assert membership.generation == first.generation + (point == "appended")
    third = await workers[1].broker.streams.join(group, WANTS)
    assert third.generation > membership.generation
    with pytest.raises(GenerationMismatch):
        await workers[0].broker.streams.commit_partitions(
            group,
            dict.fromkeys(first.assigned, (0, "")),
            member_id=first.member_id,
            generation=first.generation,
        )
    with pytest.raises(MemberFenced):
        await workers[0].broker.streams.commit_partitions(
            group, {next(iter(first.assigned)): (0, "")}, member_id=third.member_id
        )


async def test_the_owner_of_partitions_is_replaced(workers: WorkerSet) -> None:
    group = owned_by(0)
    await fill(workers, 5)
    view = await workers[1].broker.streams.join(group, WANTS)
    workers.kill(2)
    asking = asyncio.ensure_future(workers[1].broker.streams.next_offsets(group, view.assigned))
    for _ in range(50):
        await asyncio.sleep(0)
    await workers.start(2)
    try:
        found = await asking
    except WorkerUnavailable:  # it was on its way when the link broke
        found = await workers[1].broker.streams.next_offsets(group, view.assigned)
    assert found == dict.fromkeys(view.assigned, 0)
    number = partition_at(2)
    await workers[1].broker.streams.commit(group, {TOPIC: {number: 5}}, member_id=view.member_id)
    assert await workers[1].broker.streams.committed(group) == {TOPIC: {number: 5}}
