"""What members that poll are given is leased to them: the group's offset and the leases stay together."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from quiver.broker.broker import Broker
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.settlement import ACK, NACK, Receipt
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.member import Subscription
from quiver.streams.owners.port import PolledPartition
from quiver.testing.held_storage import HeldStorage

WANTS = Subscription(client_id="c", topics=frozenset({"orders"}))


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("orders", {"partitions": 3})
    yield broker
    await broker.stop()


async def fill(broker: Broker, count: int, partition: int = 0) -> None:
    await broker.publish("orders", [NewMessage(value=b"%d" % i, partition=partition) for i in range(count)])


async def join(broker: Broker) -> str:
    return (await broker.poll_members.join("g", WANTS)).view.member_id


async def poll(broker: Broker, member: str, timeout_ms: int = 0, limit: int = 100) -> list[Receipt]:
    polled = await broker.poll.poll("g", member, timeout_ms=timeout_ms, limit=limit)
    return receipts(polled)


def receipts(polled: Sequence[PolledPartition]) -> list[Receipt]:
    runs = [received.run for part in polled for received in part.received]
    return [
        Receipt("orders", run.partition, offset, run.attempt, run.group_id, run.lease_id)
        for run in runs
        for offset in range(run.start, run.end)
    ]


async def test_a_partition_with_nothing_to_read_costs_nothing(broker: Broker) -> None:
    await fill(broker, 2, partition=1)
    member = await join(broker)
    assert len(await poll(broker, member)) == 2
    assert list(broker.queues.partition_queues(broker.topic("orders").id)) == [1]
    assert await broker.streams.committed("g") == {}


async def test_a_waiting_poll_gets_what_is_given_back(broker: Broker) -> None:
    await fill(broker, 2)
    member = await join(broker)
    first, second = await poll(broker, member)
    waiting = asyncio.create_task(poll(broker, member, timeout_ms=60_000))
    await asyncio.sleep(0)
    assert (await broker.queues.settle_receipts(ACK, [second]))[0].error is None
    assert not waiting.done()
    assert (await broker.queues.settle_receipts(NACK, [first], delay_ms=0))[0].error is None
    [again] = await asyncio.wait_for(waiting, 5)
    assert (again.offset, again.attempt) == (0, 2)
    assert len(broker.queues.watchers) == 0


async def test_a_commit_settles_what_is_held_below(broker: Broker) -> None:
    await fill(broker, 3)
    member = await join(broker)
    held = await poll(broker, member)
    partition = min(broker.streams.members.view("g", member).assigned)
    await broker.streams.offsets.commit("g", {partition: (2, "")}, member_id=member)
    outcomes = await broker.queues.settle_receipts(ACK, held)
    assert [None if one.error is None else one.error.code for one in outcomes] == ["lease_lost", "lease_lost", None]
    assert await broker.streams.committed("g") == {"orders": {0: 3}}


async def test_a_poll_that_fails_in_one_partition_gives_the_others(broker: Broker) -> None:
    for partition in range(3):
        await fill(broker, 1, partition)
    member = await join(broker)
    broken = broker.topic("orders"), 1
    partition_queue = await broker.queues.partition_queue(*broken)
    await partition_queue.close()
    assert {receipt.partition for receipt in await poll(broker, member)} >= {0, 2}


async def test_members_that_come_and_go_leave_no_lease_behind(broker: Broker) -> None:
    await fill(broker, 4)
    first = await join(broker)
    held = await poll(broker, first, limit=2)
    await broker.poll_members.leave("g", first)
    second = await join(broker)
    again = await poll(broker, second)
    assert [(receipt.offset, receipt.attempt) for receipt in again] == [(0, 2), (1, 2), (2, 1), (3, 1)]
    assert all(one.error is not None for one in await broker.queues.settle_receipts(ACK, held))
    assert all(one.error is None for one in await broker.queues.settle_receipts(ACK, again))
    assert await broker.streams.committed("g") == {"orders": {0: 4}}


async def test_a_deleted_group_leaves_no_lease_behind(broker: Broker) -> None:
    await fill(broker, 2)
    member = await join(broker)
    held = await poll(broker, member)
    await broker.poll_members.leave("g", member)
    await broker.group_admin.delete("g")
    member = await join(broker)
    again = await poll(broker, member)
    assert [(receipt.offset, receipt.attempt) for receipt in again] == [(0, 1), (1, 1)]
    outcomes = await broker.queues.settle_receipts(ACK, held)
    assert [one.error.code for one in outcomes if one.error is not None] == ["lease_lost"] * 2


async def test_a_poll_ends_no_lease_in_a_partition_that_moved_on_meanwhile() -> None:
    storage = HeldStorage()
    broker = Broker(storage)
    await broker.start()
    topic = await broker.create_topic("orders", {"partitions": 2})
    for partition in (0, 1):
        await fill(broker, 1, partition)
    member = await join(broker)
    hold = storage.hold(f"topics/{topic.id}/0-delivery", "sync")
    polling = asyncio.create_task(poll(broker, member))
    await hold.reached()
    other, moved = await join(broker), TopicPartition(topic.id, 1)
    await broker.poll_members.revoke("g", member, frozenset({moved}), None)
    assert [receipt.partition for receipt in await poll(broker, other)] == [1]
    hold.release()
    assert [receipt.partition for receipt in await polling] == [0]
    assert await poll(broker, other) == [], "it has the message already"
    await broker.stop()
