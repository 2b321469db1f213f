"""Groups follow changes of topics, also when the broker is killed in between, the disk is full, or one is held."""

import asyncio

import msgspec

from quiver.broker.broker import Broker
from quiver.cluster.placement import group_shard
from quiver.model.errors import DiskFull
from quiver.streams.journal.shard import shard_log_id
from quiver.streams.member import Subscription
from quiver.testing.held_storage import HeldStorage

STREAM_JOURNAL = shard_log_id(group_shard("g"))

WANTS = Subscription(client_id="c", topics=frozenset({"t"}))


async def started(storage: HeldStorage) -> Broker:
    broker = Broker(storage)
    await broker.start()
    return broker


async def partitions_of(broker: Broker, member: str, count: int) -> list[int]:
    """What the member may read, once it is so many partitions."""
    async with asyncio.timeout(10):
        while len(assigned := broker.streams.members.view("g", member).assigned) < count:
            await asyncio.sleep(0)
    return sorted(place.partition for place in assigned)


async def test_a_group_gets_partitions_that_were_added_just_before_a_kill() -> None:
    storage = HeldStorage()
    broker = await started(storage)
    await broker.create_topic("t", {"partitions": 1})
    member = (await broker.streams.join("g", WANTS)).member_id
    hold = storage.hold(STREAM_JOURNAL, "append")
    growing = asyncio.ensure_future(broker.add_partitions("t", 2))
    await hold.reached()
    again = await started(storage.as_after_a_kill())
    assert again.topic("t").config.partitions == 2
    assert await partitions_of(again, member, 2) == [0, 1]
    await again.stop()
    hold.release()
    await growing
    await broker.stop()


async def test_a_group_that_could_not_be_told_is_told_later() -> None:
    storage = HeldStorage()
    broker = await started(storage)
    await broker.create_topic("t", {"partitions": 1})
    member = (await broker.streams.join("g", WANTS)).member_id
    hold = storage.hold(STREAM_JOURNAL, "append")
    hold.release(DiskFull(problem="no space left"))
    assert await broker.add_partitions("t", 2) == (1, 2), "the topic has them"
    assert await partitions_of(broker, member, 2) == [0, 1]
    await broker.stop()


async def test_nobody_waits_for_a_group_that_is_held() -> None:
    """As one is until the outcome of a transaction is known."""
    broker = await started(HeldStorage())
    await broker.create_topic("t", {"partitions": 1})
    member = (await broker.streams.join("g", WANTS)).member_id
    silent = msgspec.structs.replace(WANTS, session_ms=100)
    for group in ("g", "other"):
        await broker.streams.join(group, silent)
    async with broker.groups.locks.hold("g"), asyncio.timeout(10):
        assert await broker.add_partitions("t", 2) == (1, 2)
        await broker.topic_admin.follower.caught_up()
        while broker.streams.group("other").membership.members:
            await broker.streams.members.heartbeat("g", member)
            await asyncio.sleep(0)
        assert len(broker.streams.group("g").membership.members) == 2
    assert await partitions_of(broker, member, 2) == [0, 1]
    assert len(broker.streams.group("g").membership.members) == 1
    await broker.stop()
