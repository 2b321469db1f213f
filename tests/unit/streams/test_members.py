"""Members that speak in plain requests, on the memory engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.errors import GroupNotFound, MemberNotFound, ShuttingDown
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.records.read import open_frame
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.member import Subscription
from quiver.streams.membership import JoinOptions
from quiver.streams.owners.port import PolledPartition

WANTS = Subscription(client_id="c", topics=frozenset({"orders"}))


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("orders", {"partitions": 2})
    yield broker
    await broker.stop()


async def fill(broker: Broker, count: int, partition: int = 0) -> None:
    await broker.publish("orders", [NewMessage(value=b"%d" % i, partition=partition) for i in range(count)])


def values(polled: list[PolledPartition]) -> list[bytes | None]:
    frames = [open_frame(received.run.frame) for part in polled for received in part.received]
    return [value for frame in frames for value in frame.values()]


async def test_what_was_not_received_comes_again(broker: Broker) -> None:
    await fill(broker, 4)
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    polled = await broker.poll.poll("g", member, timeout_ms=0, limit=2)
    await broker.poll.give_back(polled)
    assert values(await broker.poll.poll("g", member, timeout_ms=0, limit=2)) == [b"0", b"1"]
    later = await broker.poll.poll("g", member, timeout_ms=0, limit=2)
    await broker.poll.give_back(polled)
    assert values(later) == [b"2", b"3"]
    assert await broker.poll.poll("g", member, timeout_ms=0, limit=2) == []


async def test_a_poll_that_is_given_up_has_moved_nothing(broker: Broker) -> None:
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    waiting = asyncio.create_task(broker.poll.poll("g", member, timeout_ms=60_000, limit=2))
    await asyncio.sleep(0)
    await fill(broker, 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert values(await broker.poll.poll("g", member, timeout_ms=0, limit=2)) == [b"0"]


async def test_a_commit_beyond_what_was_read_skips_there(broker: Broker) -> None:
    await fill(broker, 6)
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    await broker.poll.poll("g", member, timeout_ms=0, limit=2)
    await broker.streams.commit("g", {"orders": {0: 5}}, member_id=member)
    assert values(await broker.poll.poll("g", member, timeout_ms=0, limit=2)) == [b"5"]


async def test_a_member_gets_its_assignment_after_a_restart() -> None:
    storage = MemoryStorage()
    broker = Broker(storage)
    await broker.start()
    await broker.create_topic("orders", {"partitions": 2})
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    assert not (await broker.poll_members.heartbeat("g", member, 1, tell=False)).rebalance_required
    await broker.stop()
    broker = Broker(storage)
    await broker.start()
    assert (await broker.poll_members.heartbeat("g", member, 1, tell=False)).rebalance_required
    assert len((await broker.poll_members.assignment("g", member)).assigned) == 2
    assert not (await broker.poll_members.heartbeat("g", member, 1, tell=False)).rebalance_required
    await broker.stop()


async def test_a_waiting_poll_does_not_hold_up_the_end() -> None:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("orders", {})
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    waiting = asyncio.create_task(broker.poll.poll("g", member, timeout_ms=60_000, limit=2))
    await asyncio.sleep(0)
    await broker.stop()
    with pytest.raises(ShuttingDown):
        await asyncio.wait_for(waiting, 5)


async def test_nothing_is_remembered_of_members_and_groups_that_are_gone(broker: Broker) -> None:
    for number in range(200):
        member = (await broker.poll_members.join(f"g{number}", WANTS)).view.member_id
        await broker.poll.poll(f"g{number}", member, timeout_ms=0, limit=1)
        await broker.poll_members.leave(f"g{number}", member)
        assert broker.poll.sessions.told(f"g{number}", member) is None
        await broker.streams.delete(f"g{number}")
    assert len(broker.poll.sessions._by_group) <= 64
    for act in (broker.poll_members.leave("no", "m"), broker.streams.delete("no")):
        with pytest.raises(GroupNotFound):
            await act
    with pytest.raises(MemberNotFound):
        await broker.streams.members.join("no", WANTS, JoinOptions("m"))
    assert broker.streams.members._signals == {}
    assert len(broker.groups.locks) == 0


async def test_commits_and_deletion_at_once_leave_a_journal_that_can_be_read() -> None:
    storage = MemoryStorage()
    broker = Broker(storage)
    await broker.start()
    await broker.create_topic("orders", {"partitions": 2})
    member = (await broker.poll_members.join("g", WANTS)).view.member_id
    await broker.poll_members.leave("g", member)
    partition = TopicPartition(broker.topic("orders").id, 0)
    *_, changed = await asyncio.gather(
        broker.streams.delete("g"),
        broker.streams.offsets.commit("g", {partition: (0, "")}),
        broker.streams.members.join("g", WANTS),
        broker.groups.change_settings("g", {"offsets_retention": "1d"}),
        return_exceptions=True,
    )
    assert changed is None, "it is made after the join, to the new group"
    members = dict(broker.streams.group("g").membership.members)
    broker = Broker(storage)
    await broker.start()
    assert broker.streams.group("g").membership.members.keys() == members.keys()
    assert await broker.streams.committed("g") == {}
    await broker.stop()
