"""Queues whose partitions have several owners: received and settled once, also when owners are killed."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from quiver.model.errors import GroupNotEmpty, GroupNotFound, LeaseLost, WorkerUnavailable
from quiver.model.position import LATEST
from quiver.model.queue import ReceiveRequest
from quiver.model.settlement import ACK, NACK, REJECT, Receipt, SettleRequest
from quiver.model.topic import Topic
from quiver.queues.receive import Received
from quiver.queues.state.port import Settlement
from quiver.records.build import build_frame
from quiver.records.read import open_frame
from quiver.structures.murmur2 import partition_for
from quiver.testing.workers import WorkerSet

COUNT = 3


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        yield started


@pytest.fixture
async def topic(workers: WorkerSet) -> Topic:
    return await workers[1].broker.create_topic("jobs", {"partitions": 6})


def owner(workers: WorkerSet, topic: Topic, partition: int) -> int:
    return workers[0].local.settings.placement.partition_worker(topic.name, partition)


async def publish(workers: WorkerSet, topic: Topic, partition: int, *values: bytes, key: bytes | None = None) -> None:
    frame = build_frame(list(values), keys=[key] * len(values), timestamp_ms=1)
    await workers[owner(workers, topic, partition)].broker.produce(topic.id, partition, frame)


def wanted(topic: Topic, **options: object) -> ReceiveRequest:
    return ReceiveRequest([topic.id], "g", "c", **{"max_messages": 100, **options})  # type: ignore[arg-type]


def values(received: Sequence[Received]) -> list[bytes | None]:
    return [value for one in received for value in open_frame(bytes(one.run.frame)).values()]


def settled(received: Sequence[Received], action: int = ACK, *, is_repeat: bool = False) -> list[SettleRequest]:
    return [
        SettleRequest(
            one.topic.id,
            one.run.partition,
            one.run.group_id,
            one.run.lease_id,
            action,
            [(one.run.start, one.run.end)],
            is_repeat=is_repeat,
        )
        for one in received
    ]


def refused(settlements: Sequence[Settlement]) -> list[type[Exception]]:
    return [type(each.error) for settlement in settlements for each in settlement.refused]


async def until_waiting(workers: WorkerSet, *numbers: int) -> None:
    """Returns when a consumer waits at each of these workers."""
    for number in numbers:
        while True:
            try:
                workers[number].local.queues.check_idle("g")
            except GroupNotEmpty:
                break
            except GroupNotFound:
                pass
            await asyncio.sleep(0)


async def test_a_receive_gets_messages_of_all_owners(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"%d" % number)
    received = await workers[0].broker.queues.receive(wanted(topic))
    assert sorted(values(received)) == [b"%d" % number for number in range(6)]
    assert refused(await workers[2].broker.queues.settle(settled(received))) == []
    assert await workers[1].broker.queues.receive(wanted(topic)) == []
    again = await workers[0].broker.queues.settle(settled(received))
    assert refused(again) == [LeaseLost] * 6
    repeated = await workers[0].broker.queues.settle(settled(received, is_repeat=True))
    assert all(each.is_settled for settlement in repeated for each in settlement.refused)
    depth = await workers[2].broker.queue_depths.of("jobs", "g")
    assert (depth.ready, depth.leased) == (0, 0)


async def test_owners_are_asked_in_turn(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, *[b"x"] * 10)
    owners = []
    for _ in range(9):
        [one] = await workers[0].broker.queues.receive(wanted(topic, max_messages=1))
        owners.append(owner(workers, topic, one.run.partition))
    assert sorted(owners) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


async def test_a_caller_that_goes_to_the_workers_in_turn_gets_their_own_messages_first(
    workers: WorkerSet, topic: Topic
) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"x", b"y")
    for asked in range(COUNT):
        received = await workers[asked].broker.queues.receive(wanted(topic, own_first=True))
        assert {owner(workers, topic, one.run.partition) for one in received} == {asked}
        assert len(values(received)) == 4
    await publish(workers, topic, 0, b"z")
    elsewhere = (owner(workers, topic, 0) + 1) % COUNT
    assert values(await workers[elsewhere].broker.queues.receive(wanted(topic, own_first=True))) == [b"z"]


async def test_a_receive_waits_at_all_owners(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        waiting = asyncio.ensure_future(workers[0].broker.queues.receive(wanted(topic, wait_ms=60_000)))
        await publish(workers, topic, number, b"%d" % number)
        received = await waiting
        assert values(received) == [b"%d" % number]
        await workers[0].broker.queues.settle(settled(received))


async def test_what_comes_too_late_is_given_back_uncounted(workers: WorkerSet, topic: Topic) -> None:
    """Messages arrive at all owners at the same moment: one receive gets some, the others are available again."""
    waiting = [
        asyncio.ensure_future(workers[0].broker.queues.receive(wanted(topic, wait_ms=60_000, max_messages=1)))
        for _ in range(2)
    ]
    await until_waiting(workers, 0, 1, 2)
    await asyncio.gather(*(publish(workers, topic, number, b"%d" % number) for number in range(6)))
    got = [one for each in await asyncio.gather(*waiting) for one in each]
    while len(got) < 6:
        got += await workers[1].broker.queues.receive(wanted(topic, wait_ms=60_000))
    assert sorted(values(got)) == [b"%d" % number for number in range(6)]
    assert {one.run.attempt for one in got} == {1}


async def test_a_caller_that_gives_up_leaves_nothing_leased(workers: WorkerSet, topic: Topic) -> None:
    for _ in range(20):
        waiting = asyncio.ensure_future(workers[0].broker.queues.receive(wanted(topic, wait_ms=60_000)))
        await asyncio.sleep(0)
        publishing = [asyncio.ensure_future(publish(workers, topic, number, b"x")) for number in range(6)]
        for _ in range(10):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, *publishing, return_exceptions=True)
        got: list[Received] = []
        if not waiting.cancelled():
            got += waiting.result()
        while sum(one.run.end - one.run.start for one in got) < 6:
            got += await workers[2].broker.queues.receive(wanted(topic, wait_ms=60_000))
        assert {one.run.attempt for one in got} == {1}
        await workers[0].broker.queues.settle(settled(got))


async def test_a_worker_that_is_started_again_is_waited_at(workers: WorkerSet, topic: Topic) -> None:
    await workers[0].broker.queues.receive(wanted(topic))
    victim = 1 if owner(workers, topic, 0) != 1 else 2
    asked = 3 - victim
    waiting = asyncio.ensure_future(workers[asked].broker.queues.receive(wanted(topic, wait_ms=60_000)))
    await until_waiting(workers, 0, 1, 2)
    workers.kill(victim)
    await workers.start(victim)
    await until_waiting(workers, victim)
    [number, *_] = [number for number in range(6) if owner(workers, topic, number) == victim]
    await publish(workers, topic, number, b"after")
    assert values(await waiting) == [b"after"]


async def test_owners_that_are_left_serve_while_one_is_gone(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"%d" % number)
    await workers[0].broker.queues.receive(wanted(topic, max_messages=1))
    victim = 1 if owner(workers, topic, 0) != 1 else 2
    workers.kill(victim)
    received = await workers[0].broker.queues.receive(wanted(topic))
    assert victim not in {owner(workers, topic, one.run.partition) for one in received}
    assert received
    await workers.start(victim)
    rest = await workers[0].broker.queues.receive(wanted(topic))
    assert {owner(workers, topic, one.run.partition) for one in rest} == {victim}


async def test_an_ack_of_a_killed_owner_is_repeated(workers: WorkerSet, topic: Topic) -> None:
    """Killed before or after the ack is written: the repeat learns which, and the message is not delivered again."""
    for number in range(6):
        await publish(workers, topic, number, b"%d" % number)
    received = await workers[0].broker.queues.receive(wanted(topic))
    victim = 1
    own = [one for one in received if owner(workers, topic, one.run.partition) == victim]
    acking = asyncio.ensure_future(workers[0].broker.queues.settle(settled(received)))
    for _ in range(8):
        await asyncio.sleep(0)
    workers.kill(victim)
    settlements = await acking
    assert set(refused(settlements)) <= {WorkerUnavailable}
    assert all(
        not settlement.refused for settlement, one in zip(settlements, received, strict=True) if one not in own
    )
    await workers.start(victim)
    repeated = await workers[2].broker.queues.settle(settled(own, is_repeat=True))
    assert all(each.is_settled for settlement in repeated for each in settlement.refused)
    assert await workers[2].broker.queues.receive(wanted(topic)) == []


async def test_receipts_are_settled_in_their_order(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"%d" % number, b"%d" % number)
    received = await workers[0].broker.queues.receive(wanted(topic))
    receipts = [
        Receipt("jobs", one.run.partition, offset, one.run.attempt, one.run.group_id, one.run.lease_id)
        for offset in (0, 1)
        for one in received
    ]
    unknown = Receipt("nothing", 3, 0, 1, 1, 1)
    outcomes = await workers[0].broker.queues.settle_receipts(ACK, [receipts[0], unknown, *receipts[1:]])
    assert isinstance(outcomes[1].error, LeaseLost)
    del outcomes[1]
    assert [outcome.error for outcome in outcomes] == [None] * 12
    assert [(each.partition, each.offset) for each in outcomes] == [(each[1], each[2]) for each in receipts]
    assert all(outcome.committed_offset == 2 for outcome in outcomes)
    rejected = await workers[0].broker.queues.settle_receipts(REJECT, receipts[:2], reason="twice")
    assert [type(outcome.error) for outcome in rejected] == [LeaseLost] * 2


async def test_one_key_is_received_from_its_owner(workers: WorkerSet, topic: Topic) -> None:
    for name in (b"a", b"b", b"c", b"d"):
        await publish(workers, topic, partition_for(name, 6), b"1" + name, b"2" + name, key=name)
    for name in (b"a", b"b", b"c", b"d"):
        received = await workers[0].broker.queues.receive(wanted(topic, ordering="key", key=name))
        assert values(received) == [b"1" + name, b"2" + name]
        [held] = await workers[1].broker.queue_leases.of_key(topic.id, received[0].run.group_id, name)
        lease = await workers[2].broker.queue_leases.of_lease(
            topic.id, held.partition, received[0].run.group_id, held.lease_id
        )
        assert lease is not None
        assert lease.runs
        assert await workers[2].broker.queues.receive(wanted(topic, ordering="key", key=name)) == []
        await workers[1].broker.queues.settle(settled(received, NACK))


async def test_a_group_that_begins_at_the_end_gets_nothing_old_of_any_owner(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"old")
    for asked in range(COUNT):
        assert await workers[asked].broker.queues.receive(wanted(topic, start=LATEST)) == []
    for number in range(6):
        await publish(workers, topic, number, b"new")
    assert values(await workers[0].broker.queues.receive(wanted(topic, start=LATEST))) == [b"new"] * 6


async def test_leases_are_listed_in_pages(workers: WorkerSet, topic: Topic) -> None:
    with pytest.raises(GroupNotFound):
        await workers[0].broker.queue_leases.page("jobs", "g", limit=5)
    for number in range(6):
        await publish(workers, topic, number, b"x", b"y", b"z")
    await workers[0].broker.queues.receive(wanted(topic))
    found, after = [], None
    while True:
        page = await workers[2].broker.queue_leases.page("jobs", "g", limit=4, after=after)
        found += [(lease.partition, lease.offset) for lease in page.leases]
        after = page.next
        if after is None:
            break
    assert found == [(number, offset) for number in range(6) for offset in range(3)]


async def test_a_paused_group_waits_at_every_owner(workers: WorkerSet, topic: Topic) -> None:
    await workers[0].broker.queues.receive(wanted(topic))
    await workers[2].broker.queues.pause("jobs", "g", "checking")
    for number in range(6):
        await publish(workers, topic, number, b"x")
    assert (await workers[1].broker.queue_depths.of("jobs", "g")).pause_reason == "checking"
    waiting = asyncio.ensure_future(workers[1].broker.queues.receive(wanted(topic, wait_ms=60_000)))
    await until_waiting(workers, 0, 1, 2)
    assert not waiting.done()
    await workers[0].broker.queues.resume("jobs", "g")
    assert await waiting


async def test_statistics_are_those_of_all_owners(workers: WorkerSet, topic: Topic) -> None:
    for number in range(6):
        await publish(workers, topic, number, b"x", b"y")
    received = await workers[0].broker.queues.receive(wanted(topic))
    await workers[0].broker.queues.settle(settled(received[:2]))
    found = await workers[1].broker.queue_stats.reliability()
    assert (found.total.delivered, found.total.acks, found.total.in_flight) == (12, 4, 8)
    assert found.topics["jobs"][1]["g"] == found.total
    priorities = await workers[2].broker.queue_stats.priorities("jobs")
    assert list(priorities.topics["jobs"]) == list(range(6))
    assert (sum(priorities.stored), sum(priorities.delivered)) == (12, 12)
    [depth] = await workers[2].broker.queue_depths.of_all("jobs")
    assert (depth.group, depth.leased, depth.ready, depth.consumers) == ("g", 8, 0, {"c": 8})
