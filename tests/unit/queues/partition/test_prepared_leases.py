"""Acks that wait for the decision of a transaction elsewhere: held against everything, also over restarts."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.queues.queue_broker import QueueBroker, values

from quiver.model.errors import LeaseLost, SettleInOrder
from quiver.model.settlement import EXTEND, NACK, REJECT
from quiver.model.transaction import LeasedAcks
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Received

DECISION = 7
HOUR_MS = 3_600_000
ORDERINGS = pytest.mark.parametrize("ordering", ["none", "key"])


@pytest.fixture
async def jobs() -> AsyncIterator[QueueBroker]:
    found = QueueBroker()
    await found.start()
    await found.broker.create_topic("jobs", {})
    await found.publish("jobs", b"0", b"1", b"2", keys=[b"k"] * 3)
    yield found
    await found.broker.stop()


def acks(received: list[Received], start: int, end: int) -> list[LeasedAcks]:
    one = received[0]
    return [LeasedAcks(one.topic.id, 0, one.run.group_id, one.run.lease_id, [(start, end)])]


def queue_of(jobs: QueueBroker) -> PartitionQueue:
    return jobs.broker.queues.partition_queues(jobs.broker.topic("jobs").id)[0]


async def refused(jobs: QueueBroker, received: list[Received], action: int, run: tuple[int, int]) -> list[object]:
    [settlement] = await jobs.settle(received[:1], action, runs=[run])
    return [(each.start, each.end, type(each.error)) for each in settlement.refused]


@ORDERINGS
async def test_nothing_but_the_outcome_settles_them(jobs: QueueBroker, ordering: str) -> None:
    received = await jobs.receive("jobs", ordering=ordering, visibility_ms=1_000)
    await jobs.broker.queues.prepare_leases(DECISION, acks(received, 0, 2))
    await jobs.broker.queues.prepare_leases(DECISION, acks(received, 0, 2))  # again: nothing changes
    for action in (0, NACK, REJECT):
        assert await refused(jobs, received, action, (0, 2)) == [(0, 2, LeaseLost)]
    assert await refused(jobs, received, EXTEND, (0, 3)) == []
    await queue_of(jobs).end_leases(received[0].run.group_id, "c")
    await jobs.wait(HOUR_MS)
    for restarts in range(2):
        again = await jobs.receive("jobs", ordering=ordering, consumer="d")
        assert not {b"0", b"1"} & set(values(again))
        with pytest.raises(LeaseLost):
            await jobs.broker.queues.prepare_acks(acks(received, 1, 2))
        with pytest.raises(LeaseLost):
            await jobs.broker.queues.prepare_leases(DECISION + 1, acks(received, 1, 2))
        if not restarts:
            await queue_of(jobs).journal.snapshot()
            await jobs.restart()
    await jobs.broker.queues.end_prepared(DECISION, commit=True)
    await jobs.broker.queues.end_prepared(DECISION, commit=True)  # again: nothing changes
    await jobs.wait(HOUR_MS)
    assert values(await jobs.receive("jobs", ordering=ordering, consumer="e")) == [b"2"]
    await jobs.restart()
    assert queue_of(jobs).settled_offset(received[0].run.group_id) == 2
    assert not jobs.broker.queues.prepared_decisions()


@ORDERINGS
async def test_what_is_not_committed_belongs_to_its_holder_again(jobs: QueueBroker, ordering: str) -> None:
    received = await jobs.receive("jobs", ordering=ordering, visibility_ms=1_000)
    await jobs.broker.queues.prepare_leases(DECISION, acks(received, 0, 2))
    await jobs.restart()
    await jobs.broker.queues.end_prepared(DECISION, commit=False)
    assert await refused(jobs, received, 0, (0, 1)) == []
    await jobs.wait(HOUR_MS)
    assert sorted(values(await jobs.receive("jobs", ordering=ordering, consumer="d"))) == [b"1", b"2"]


async def test_acks_out_of_order_are_not_prepared(jobs: QueueBroker) -> None:
    received = await jobs.receive("jobs", ordering="key")
    with pytest.raises(SettleInOrder):
        await jobs.broker.queues.prepare_leases(DECISION, acks(received, 1, 2))
    assert not jobs.broker.queues.prepared_decisions()
    assert await refused(jobs, received, 0, (0, 3)) == []


async def test_acks_in_several_parts_count_together(jobs: QueueBroker) -> None:
    """As those of single receipts, in whatever order they are named."""
    received = await jobs.receive("jobs", ordering="key")
    parts = [each for start in (1, 0, 1) for each in acks(received, start, start + 1)]
    for _ in range(2):
        await jobs.broker.queues.prepare_leases(DECISION, parts)
    await jobs.broker.queues.end_prepared(DECISION, commit=True)
    await queue_of(jobs).end_leases(received[0].run.group_id, "c")
    assert values(await jobs.receive("jobs", ordering="key", consumer="d")) == [b"2"]


async def test_an_outcome_that_nobody_knows_was_no_commit(jobs: QueueBroker) -> None:
    """The coordinator that asked for it never decided it."""
    received = await jobs.receive("jobs", ordering="none")
    await jobs.broker.queues.prepare_leases(DECISION, acks(received, 0, 3))
    await jobs.restart()
    async with asyncio.timeout(30):
        while jobs.broker.queues.prepared_decisions():
            await asyncio.sleep(0)
    assert await refused(jobs, received, 0, (0, 3)) == []
