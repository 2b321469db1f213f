"""Groups through the broker's use cases, on the memory engine."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.model.errors import GroupNotEmpty, GroupNotFound, InvalidRequest, InvalidSetting, MemberNotFound
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.position import EARLIEST, LATEST, Position
from quiver.records.read import open_frame
from quiver.storage.memory.storage import MemoryStorage
from quiver.streams.member import Subscription
from quiver.streams.membership import JoinOptions
from quiver.streams.owners.port import PolledPartition


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage())
    await broker.start()
    await broker.create_topic("orders", {"partitions": 4})
    yield broker
    await broker.stop()


def wants(*topics: str, pattern: str | None = None) -> Subscription:
    return Subscription(client_id="c", topics=frozenset(topics), pattern=pattern)


async def fill(broker: Broker, count: int, partition: int = 0) -> None:
    await broker.publish("orders", [NewMessage(value=b"%d" % i, partition=partition) for i in range(count)])


def values(polled: list[PolledPartition]) -> list[bytes | None]:
    frames = [open_frame(received.run.frame) for part in polled for received in part.received]
    return [value for frame in frames for value in frame.values()]


async def test_a_poll_goes_on_after_what_the_member_got_last(broker: Broker) -> None:
    member = await broker.streams.join("billing", wants("orders"))
    await fill(broker, 5)
    first = await broker.poll.poll("billing", member.member_id, timeout_ms=0, limit=3)
    second = await broker.poll.poll("billing", member.member_id, timeout_ms=0, limit=3)
    assert values(first) == [b"0", b"1", b"2"]
    assert values(second) == [b"3", b"4"]
    assert await broker.poll.poll("billing", member.member_id, timeout_ms=0, limit=3) == []


async def test_a_waiting_poll_wakes_when_a_message_comes(broker: Broker) -> None:
    member = await broker.streams.join("billing", wants("orders"))
    waiting = asyncio.create_task(broker.poll.poll("billing", member.member_id, timeout_ms=60_000, limit=10))
    await asyncio.sleep(0)
    await fill(broker, 1, partition=3)
    assert values(await asyncio.wait_for(waiting, 5)) == [b"0"]


async def test_no_partition_starves_the_others(broker: Broker) -> None:
    member = await broker.streams.join("billing", wants("orders"))
    for partition in range(4):
        await fill(broker, 10, partition)
    seen = set()
    for _ in range(4):
        polled = await broker.poll.poll("billing", member.member_id, timeout_ms=0, limit=5)
        seen |= {part.partition for part in polled}
    assert seen == {0, 1, 2, 3}


async def test_polling_members_share_without_further_ado(broker: Broker) -> None:
    first = await broker.streams.join("billing", wants("orders"))
    second = await broker.streams.join("billing", wants("orders"))
    assert second.assigned == frozenset()
    await broker.poll.poll("billing", first.member_id, timeout_ms=0, limit=1)
    views = [broker.streams.members.view("billing", m.member_id) for m in (first, second)]
    assert [len(view.assigned) for view in views] == [2, 2]
    assert not views[0].assigned & views[1].assigned


async def test_a_new_owner_begins_at_the_committed_offset(broker: Broker) -> None:
    await fill(broker, 10)
    first = await broker.streams.join("billing", wants("orders"))
    await broker.streams.commit("billing", {"orders": {0: 7}}, member_id=first.member_id, generation=1)
    await broker.streams.members.leave("billing", first.member_id)
    second = await broker.streams.join("billing", wants("orders"))
    polled = await broker.poll.poll("billing", second.member_id, timeout_ms=0, limit=100)
    assert values(polled) == [b"7", b"8", b"9"]
    with pytest.raises(MemberNotFound):
        await broker.streams.commit("billing", {"orders": {0: 3}}, member_id=first.member_id)


async def test_two_groups_do_not_disturb_each_other(broker: Broker) -> None:
    await fill(broker, 3)
    for group in ("billing", "audit"):
        member = await broker.streams.join(group, wants("orders"))
        assert values(await broker.poll.poll(group, member.member_id, timeout_ms=0, limit=9)) == [b"0", b"1", b"2"]
        await broker.streams.commit(
            group, {"orders": {0: 1 if group == "billing" else 3}}, member_id=member.member_id
        )
    assert await broker.streams.committed("billing") == {"orders": {0: 1}}
    assert await broker.streams.committed("audit") == {"orders": {0: 3}}


async def test_lag_in_messages_and_time(broker: Broker) -> None:
    await fill(broker, 10)
    member = await broker.streams.join("billing", wants("orders"))
    await broker.streams.commit("billing", {"orders": {0: 4}}, member_id=member.member_id)
    [summary] = await broker.group_admin.summaries()
    assert (summary.lag, summary.topics, summary.member_count, summary.state) == (6, ["orders"], 1, "stable")
    lags = {part.partition: part for part in (await broker.group_admin.describe("billing")).partitions}
    assert (lags[0].committed, lags[0].end_offset, lags[0].messages) == (4, 10, 6)
    assert lags[0].owner == member.member_id
    assert (lags[1].committed, lags[1].messages, lags[1].time_ms) == (None, 0, 0)
    await broker.streams.members.leave("billing", member.member_id)
    await fill(broker, 5, partition=2)
    [summary] = await broker.group_admin.summaries()
    assert summary.lag == 11, "a partition without a commit counts too, with members or without"


@pytest.mark.parametrize(
    ("to", "expected"),
    [(EARLIEST, 0), (LATEST, 10), (Position("offset", 3), 3), (Position("offset", 99), 10), (-2, 4), (50, 10)],
)
async def test_resets(broker: Broker, to: Position | int, expected: int) -> None:
    await fill(broker, 10)
    member = await broker.streams.join("billing", wants("orders"))
    await broker.streams.commit("billing", {"orders": {0: 6}}, member_id=member.member_id)
    with pytest.raises(GroupNotEmpty):
        await broker.offset_reset.reset("billing", "orders", to, dry_run=False)
    await broker.streams.members.leave("billing", member.member_id)
    planned = await broker.offset_reset.reset("billing", "orders", to, dry_run=True)
    assert await broker.streams.committed("billing") == {"orders": {0: 6}}
    done = await broker.offset_reset.reset("billing", "orders", to, dry_run=False)
    assert planned == done
    assert (done[0].old, done[0].new) == (6, expected)
    assert (await broker.streams.committed("billing"))["orders"][0] == expected


async def test_a_group_that_says_latest_begins_there_once_and_for_all(broker: Broker) -> None:
    await fill(broker, 5)
    first = await broker.streams.join("billing", wants("orders"), JoinOptions(start=LATEST))
    await broker.streams.members.leave("billing", first.member_id)
    await fill(broker, 2)
    second = await broker.streams.join("billing", wants("orders"), JoinOptions(start=LATEST))
    assert values(await broker.poll.poll("billing", second.member_id, timeout_ms=0, limit=9)) == [b"0", b"1"]


async def test_new_topics_and_partitions_reach_the_group(broker: Broker) -> None:
    member = await broker.streams.join("billing", wants(pattern="orders.*"))
    await broker.create_topic("orders.eu", {"partitions": 2})
    assert len(broker.streams.members.view("billing", member.member_id).assigned) == 6
    await broker.add_partitions("orders.eu", 3)
    assert len(broker.streams.members.view("billing", member.member_id).assigned) == 7
    await broker.delete_topic("orders")
    assert len(broker.streams.members.view("billing", member.member_id).assigned) == 3


async def test_members_offsets_and_generations_outlive_the_broker() -> None:
    storage = MemoryStorage()
    generation, member_id = 0, ""
    for turn in range(4):
        broker = Broker(storage)
        await broker.start()
        if turn == 0:
            await broker.create_topic("orders", {"partitions": 4})
            member_id = (await broker.streams.join("billing", wants("orders"))).member_id
            await broker.streams.members.join("billing", wants("orders"))
        view = await broker.streams.members.heartbeat("billing", member_id)
        assert view.generation >= generation
        generation = view.generation
        mine = sorted(view.assigned)[0]
        assert await broker.streams.committed("billing") == ({"orders": {mine.partition: 0}} if turn else {})
        await broker.streams.commit("billing", {"orders": {mine.partition: 0}}, member_id=member_id)
        if turn % 2:
            await broker.stop()


async def test_what_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidRequest):
        await broker.streams.join("billing", wants())
    with pytest.raises(GroupNotFound):
        await broker.group_admin.describe("billing")
    member = await broker.streams.join("billing", wants("orders"))
    with pytest.raises(InvalidRequest):
        await broker.streams.commit("billing", {"orders": {0: 99}}, member_id=member.member_id)
    with pytest.raises(GroupNotEmpty):
        await broker.streams.delete("billing")
    with pytest.raises(InvalidSetting):
        await broker.group_admin.alter("billing", {"colour": "red"})
    await broker.group_admin.alter("billing", {"offsets_retention": "1h"})
    assert (await broker.group_admin.describe("billing")).settings == {"offsets_retention": "1h"}
    await broker.streams.members.leave("billing", member.member_id)
    await broker.streams.delete("billing")
    assert await broker.group_admin.summaries() == []


async def test_a_member_that_waits_for_a_change_is_told_at_once(broker: Broker) -> None:
    first = await broker.streams.join("billing", wants("orders"))
    seen = await broker.streams.members.heartbeat("billing", first.member_id)
    assert seen.version == first.version
    waiting = asyncio.create_task(broker.streams.members.next_view("billing", seen, 60_000))
    await asyncio.sleep(0)
    await broker.streams.join("billing", wants("orders"))
    told = await asyncio.wait_for(waiting, 5)
    assert told.state == "pending_revoke"
    assert len(told.revoke) == 2
    after = await broker.streams.members.heartbeat("billing", first.member_id, revoked=told.revoke)
    assert after.state == "complete"
    assert broker.streams.group("billing").membership.owner_of(TopicPartition(*next(iter(told.revoke)))) not in (
        None,
        first.member_id,
    )


async def test_changes_of_settings_at_once_are_all_made(broker: Broker) -> None:
    await broker.streams.join("billing", wants("orders"))
    settings = {"offsets_retention": "1d", "visibility": "7s", "max_attempts": 9, "backoff": "2s", "max_unacked": 5}
    await asyncio.gather(*(broker.group_admin.alter("billing", {name: value}) for name, value in settings.items()))
    assert broker.groups.group("billing").settings.settings() == settings
