"""What a settlement that is sent again learns of messages whose lease is gone."""

from collections.abc import AsyncIterator

import pytest

from quiver.model.priority import Priority
from quiver.model.settlement import ACK, NACK, REJECT
from quiver.queues.state.port import Settlement
from unit.queues.partition.queue_partition import GROUP, QueuePartition, numbered


@pytest.fixture
async def jobs() -> AsyncIterator[QueuePartition]:
    queue = QueuePartition()
    await queue.open()
    yield queue
    await queue.close()
    await queue.storage.close()


def refused(settlement: Settlement) -> list[tuple[int, int, bool]]:
    return [(each.start, each.end, each.is_settled) for each in settlement.refused]


KEYS = {"none": [None] * 6, "key": [b"a", b"b", b"c", b"d", None, b"e"]}


@pytest.mark.parametrize("ordering", ["none", "key"])
@pytest.mark.parametrize("restarts", [False, True])
async def test_settled_and_unsettled_messages_are_told_apart(jobs: QueuePartition, ordering: str, restarts: bool):
    await jobs.begin(ordering=ordering)
    await jobs.publish(*numbered(6), keys=KEYS[ordering])
    [run, *_] = await jobs.receive(5)
    await jobs.settle(run, ACK, [(0, 2)])
    await jobs.settle(run, REJECT, [(3, 4)])
    await jobs.settle(run, NACK, [(2, 3)], delay_ms=1_000)
    if restarts:
        await jobs.restart()
    again = await jobs.settle(run, ACK, [(0, 4), (5, 6)], is_repeat=True)
    told = {offset: settled for start, end, settled in refused(again) for offset in range(start, end)}
    assert told == {0: True, 1: True, 2: False, 3: True, 5: False}
    assert any("offset 2 " in each.error.message for each in again.refused)
    assert not (await jobs.settle(run, ACK, [(4, 5)], is_repeat=True)).refused


async def test_only_a_repeat_is_told(jobs: QueuePartition):
    await jobs.begin()
    await jobs.publish(*numbered(2))
    [run] = await jobs.receive()
    await jobs.settle(run)
    assert refused(await jobs.settle(run)) == [(0, 2, False)]
    assert refused(await jobs.settle(run, is_repeat=True)) == [(0, 2, True)]


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_what_was_never_delivered_is_not_settled(jobs: QueuePartition, ordering: str):
    """As after a power cut that took the lease with it."""
    await jobs.begin(ordering=ordering)
    await jobs.publish(*numbered(4), keys=[b"a", b"b", b"a", b"c"])
    [run, *_] = await jobs.receive(1)
    unknown = run._replace(lease_id=run.lease_id + 1, start=0, end=4)
    assert refused(await jobs.settle(unknown, is_repeat=True)) == [(0, 4, False)]


async def test_each_level_has_its_own_position(jobs: QueuePartition):
    await jobs.begin()
    for level in (Priority.NORMAL, Priority.HIGH, Priority.NORMAL, Priority.HIGH):
        await jobs.publish(b"x", priority=level)
    [first, second] = await jobs.receive(10, level=Priority.HIGH)
    for run in (first, second):
        await jobs.settle(run)
    unknown = first._replace(start=0, end=4)
    assert refused(await jobs.settle(unknown, is_repeat=True)) == [
        (0, 1, False),
        (1, 2, True),
        (2, 3, False),
        (3, 4, True),
    ]


async def test_what_a_group_has_left_behind_is_settled(jobs: QueuePartition):
    await jobs.begin()
    await jobs.publish(*numbered(4))
    [run] = await jobs.receive()
    await jobs.partition_queue.settle_below(GROUP, 3)
    assert refused(await jobs.settle(run, is_repeat=True)) == [(0, 3, True)]
    jobs.partition_queue.rewind(GROUP, 1)
    assert refused(await jobs.settle(run, is_repeat=True)) == [(0, 1, True), (1, 4, False)]


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_what_a_transaction_acks_is_settled_once_it_is_decided(jobs: QueuePartition, ordering: str):
    await jobs.begin(ordering=ordering)
    await jobs.publish(*numbered(3), keys=[b"a", b"b", b"c"])
    [run, *_] = await jobs.receive(3)
    settler = jobs.partition_queue.settler
    prepared = settler.prepare_acks(GROUP, run.lease_id, [(1, 2)])
    assert refused(await jobs.settle(run, ACK, [(1, 2)], is_repeat=True)) == [(1, 2, False)]
    settler.take_back_acks(prepared)
    await settler.finish_acks(settler.prepare_acks(GROUP, run.lease_id, [(1, 2)]))
    assert refused(await jobs.settle(run, ACK, [(1, 2)], is_repeat=True)) == [(1, 2, True)]
