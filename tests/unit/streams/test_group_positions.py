"""Where a group is when acks, commits, resets, transactions and kills meet: whatever comes first, in each order."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from quiver.broker.broker import Broker
from quiver.cluster.placement import group_shard
from quiver.coordination.local import LOG_ID as GROUP_JOURNAL
from quiver.messages.browse import BrowseRequest
from quiver.model.errors import DiskFull, GroupNotEmpty, PartitionOffline
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.position import EARLIEST
from quiver.model.settlement import ACK, Receipt
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.queues.settle import ReceiptOutcome
from quiver.streams.journal.shard import shard_log_id
from quiver.streams.member import Subscription
from quiver.streams.owners.port import PolledPartition
from quiver.testing.held_storage import HeldStorage
from quiver.transactions.coordinator import LOG_ID as TRANSACTION_JOURNAL

STREAM_JOURNAL = shard_log_id(group_shard("g"))

WANTS = Subscription(client_id="c", topics=frozenset({"t"}))


@pytest.fixture
async def storage() -> HeldStorage:
    return HeldStorage()


@pytest.fixture
async def broker(storage: HeldStorage) -> AsyncIterator[Broker]:
    """Ten messages, in a topic of one partition."""
    broker = Broker(storage)
    await broker.start()
    await broker.create_topic("t", {"partitions": 1})
    await broker.publish("t", [NewMessage(value=b"%d" % number, partition=0) for number in range(10)])
    yield broker
    storage.release_all()
    await broker.stop()


def place(broker: Broker) -> TopicPartition:
    return TopicPartition(broker.topic("t").id, 0)


def delivery_journal(broker: Broker) -> str:
    return f"topics/{broker.topic('t').id}/0-delivery"


async def join(broker: Broker) -> str:
    return (await broker.poll_members.join("g", WANTS)).view.member_id


async def poll(broker: Broker, member: str, limit: int = 100) -> list[Receipt]:
    return receipts(await broker.poll.poll("g", member, timeout_ms=0, limit=limit))


def receipts(polled: Sequence[PolledPartition]) -> list[Receipt]:
    runs = [received.run for part in polled for received in part.received]
    return [
        Receipt("t", run.partition, offset, run.attempt, run.group_id, run.lease_id)
        for run in runs
        for offset in range(run.start, run.end)
    ]


async def ack(broker: Broker, held: Sequence[Receipt]) -> list[ReceiptOutcome]:
    return await broker.queues.settle_receipts(ACK, held)


async def committed(broker: Broker) -> int | None:
    return (await broker.streams.committed("g")).get("t", {}).get(0)


def offsets(held: Sequence[Receipt]) -> list[int]:
    return [receipt.offset for receipt in held]


async def restarted(storage: HeldStorage) -> Broker:
    """Another broker, on what a kill leaves now."""
    broker = Broker(storage.as_after_a_kill())
    await broker.start()
    return broker


async def drained(broker: Broker) -> list[int]:
    """What a new member gets once the others have gone."""
    for member in list(broker.streams.group("g").membership.members):
        await broker.poll_members.leave("g", member)
    return offsets(await poll(broker, await join(broker)))


# acks and commits


async def test_an_ack_that_is_under_way_does_not_take_a_commit_back(broker: Broker, storage: HeldStorage) -> None:
    member = await join(broker)
    held = await poll(broker, member)
    sync = storage.hold(delivery_journal(broker), "sync")
    acking = asyncio.create_task(ack(broker, held[:5]))
    await sync.reached()
    await broker.streams.commit("g", {"t": {0: 10}}, member_id=member)
    sync.release()
    outcomes = await acking
    assert (await committed(broker), {outcome.committed_offset for outcome in outcomes}) == (10, {10})
    again = await restarted(storage)
    assert await committed(again) == 10
    await again.stop()


async def test_a_commit_that_is_being_written_does_not_take_acks_back(broker: Broker, storage: HeldStorage) -> None:
    """It decides when it is applied: by then the acks are there, and it lies back."""
    member = await join(broker)
    held = await poll(broker, member)
    write = storage.hold(STREAM_JOURNAL, "append")
    committing = asyncio.create_task(broker.streams.commit("g", {"t": {0: 4}}, member_id=member))
    await write.reached()
    await ack(broker, held)
    assert await committed(broker) == 10
    write.release()
    await committing
    assert await committed(broker) == 4
    assert offsets(await poll(broker, member)) == [4, 5, 6, 7, 8, 9]


async def test_an_offset_is_shown_when_the_ack_is_on_disk(broker: Broker, storage: HeldStorage) -> None:
    held = await poll(broker, await join(broker))
    await ack(broker, held[:1])
    sync = storage.hold(delivery_journal(broker), "sync")
    acking = asyncio.create_task(ack(broker, held[1:3]))
    await sync.reached()
    assert await committed(broker) == 1
    sync.release()
    await acking
    assert await committed(broker) == 3


async def test_an_ack_that_cannot_be_written_moves_nothing(broker: Broker, storage: HeldStorage) -> None:
    held = await poll(broker, await join(broker))
    write = storage.hold(delivery_journal(broker), "append")
    acking = asyncio.create_task(ack(broker, held[:1]))
    await write.reached()
    later = asyncio.create_task(ack(broker, held[1:2]))
    await asyncio.sleep(0)
    write.release(DiskFull(problem="it is full"))
    [outcome] = await acking
    assert isinstance(outcome.error, DiskFull)
    assert (await later)[0].error is None
    assert await committed(broker) is None, "the second is acked, the first is not"
    await ack(broker, held[:1])
    assert await committed(broker) == 2


async def test_acks_need_no_group_journal(broker: Broker, storage: HeldStorage) -> None:
    held = await poll(broker, await join(broker))
    storage.hold(STREAM_JOURNAL, "append").release(PartitionOffline(partition=STREAM_JOURNAL, problem="it failed"))
    outcomes = await ack(broker, held[:5])
    assert [outcome.error for outcome in outcomes] == [None] * 5
    assert storage.is_held(STREAM_JOURNAL, "append"), "nothing was written to it"
    again = await restarted(storage)
    assert await committed(again) == 5
    await again.stop()


# what lies back


async def test_a_commit_of_a_member_that_lies_back_counts(broker: Broker, storage: HeldStorage) -> None:
    member = await join(broker)
    held = await poll(broker, member)
    await ack(broker, held[:8])
    await broker.streams.commit("g", {"t": {0: 5}}, member_id=member)
    assert await committed(broker) == 5
    outcomes = await ack(broker, held[8:])
    assert [outcome.error.code for outcome in outcomes if outcome.error is not None] == ["lease_lost"] * 2
    again = await restarted(storage)
    assert (await committed(again), await drained(again)) == (5, [5, 6, 7, 8, 9])
    await again.stop()
    assert offsets(await poll(broker, member)) == [5, 6, 7, 8, 9]


async def test_a_waiting_poll_gets_what_a_commit_brings_back(broker: Broker) -> None:
    member = await join(broker)
    await ack(broker, await poll(broker, member))
    waiting = asyncio.create_task(broker.poll.poll("g", member, timeout_ms=60_000, limit=100))
    await asyncio.sleep(0)
    await broker.streams.commit("g", {"t": {0: 7}}, member_id=member)
    assert offsets(receipts(await asyncio.wait_for(waiting, 10))) == [7, 8, 9]


async def test_a_reset_lasts_though_the_delivery_journal_has_not_heard_of_it(
    broker: Broker, storage: HeldStorage
) -> None:
    member = await join(broker)
    await ack(broker, await poll(broker, member))
    await broker.poll_members.leave("g", member)
    [change] = await broker.offset_reset.reset("g", "t", EARLIEST, dry_run=False)
    assert (change.old, change.new) == (10, 0)
    for each in (broker, await restarted(storage)):
        assert (await committed(each), await drained(each)) == (0, list(range(10)))
        if each is not broker:
            await each.stop()


async def test_a_reset_is_refused_behind_a_member_that_is_about_to_join(broker: Broker, storage: HeldStorage) -> None:
    member = await join(broker)
    await ack(broker, await poll(broker, member))
    await broker.poll_members.leave("g", member)
    write = storage.hold(STREAM_JOURNAL, "append")
    joining = asyncio.create_task(join(broker))
    await write.reached()
    resetting = asyncio.create_task(broker.offset_reset.reset("g", "t", EARLIEST, dry_run=False))
    await asyncio.sleep(0)
    write.release()
    with pytest.raises(GroupNotEmpty):
        await resetting
    assert await poll(broker, await joining) == []


async def test_a_member_that_joins_behind_a_reset_begins_where_it_says(broker: Broker, storage: HeldStorage) -> None:
    member = await join(broker)
    await ack(broker, await poll(broker, member))
    await broker.poll_members.leave("g", member)
    write = storage.hold(STREAM_JOURNAL, "append")
    resetting = asyncio.create_task(broker.offset_reset.reset("g", "t", EARLIEST, dry_run=False))
    await write.reached()
    joining = asyncio.create_task(join(broker))
    await asyncio.sleep(0)
    write.release()
    await resetting
    assert offsets(await poll(broker, await joining)) == list(range(10))


async def test_of_two_resets_one_begins_where_the_other_has_left(broker: Broker, storage: HeldStorage) -> None:
    member = await join(broker)
    await ack(broker, await poll(broker, member))
    await broker.poll_members.leave("g", member)
    write = storage.hold(STREAM_JOURNAL, "append")
    first = asyncio.create_task(broker.offset_reset.reset("g", "t", EARLIEST, dry_run=False))
    await write.reached()
    second = asyncio.create_task(broker.offset_reset.reset("g", "t", 4, dry_run=False))
    await asyncio.sleep(0)
    write.release()
    changes = [*(await first), *(await second)]
    assert [(change.old, change.new) for change in changes] == [(10, 0), (0, 4)]
    assert await committed(broker) == 4


async def test_a_later_start_does_not_move_a_group_that_has_begun(broker: Broker) -> None:
    member = await join(broker)
    held = await poll(broker, member, limit=3)
    await broker.poll_members.leave("g", member)
    assert await committed(broker) is None
    await broker.streams.offsets.begin_at("g", {place(broker): 10})
    assert offsets(await poll(broker, await join(broker))) == list(range(10))
    assert offsets(held) == [0, 1, 2]


# answers that are lost


async def test_what_to_commit_stops_at_the_first_message_that_the_member_may_not_have(broker: Broker) -> None:
    member = await join(broker)
    [lost] = await broker.poll.poll("g", member, timeout_ms=0, limit=4)
    [second] = await broker.poll.poll("g", member, timeout_ms=0, limit=4)
    assert (lost.next_offset, second.next_offset) == (4, None)
    await ack(broker, receipts([lost])[:2])
    [third] = await broker.poll.poll("g", member, timeout_ms=0, limit=4)
    assert (offsets(receipts([third])), third.next_offset) == ([8, 9], None)
    await broker.queues.give_back(lost.received)
    [again] = await broker.poll.poll("g", member, timeout_ms=0, limit=4)
    assert (offsets(receipts([again])), again.next_offset) == ([2, 3], 4)


# transactions


async def begin(broker: Broker) -> ProducerKey:
    key = await broker.transactions.init()
    await broker.create_topic("out", {"partitions": 1})
    await broker.transactions.publish(key.producer_id, key.epoch, "out", NewMessage(value=b"made", partition=0))
    return key


def leased(held: Sequence[Receipt], topic_id: int) -> LeasedAcks:
    runs = [(receipt.offset, receipt.offset + 1) for receipt in held]
    return LeasedAcks(topic_id, 0, held[0].group_id, held[0].lease_id, runs)


async def test_an_ack_that_is_not_decided_moves_no_offset(broker: Broker, storage: HeldStorage) -> None:
    held = await poll(broker, await join(broker))
    key, topic_id = await begin(broker), broker.topic("t").id
    write = storage.hold(TRANSACTION_JOURNAL, "append")
    committing = asyncio.create_task(broker.transactions.commit([key], acks=[leased(held[:1], topic_id)]))
    await write.reached()
    [outcome] = await ack(broker, held[1:2])
    assert (outcome.committed_offset, outcome.offset_advanced, await committed(broker)) == (0, False, None)
    killed = await restarted(storage)
    assert await drained(killed) == [0, *range(2, 10)]
    await killed.stop()
    write.release()
    await committing
    assert await committed(broker) == 2


async def test_an_ack_of_a_transaction_that_cannot_be_decided_is_taken_back(
    broker: Broker, storage: HeldStorage
) -> None:
    held = await poll(broker, await join(broker))
    key, topic_id = await begin(broker), broker.topic("t").id
    storage.hold(TRANSACTION_JOURNAL, "append").release(DiskFull(problem="it is full"))
    with pytest.raises(DiskFull):
        await broker.transactions.commit([key], acks=[leased(held[:1], topic_id)])
    await ack(broker, held[1:2])
    assert await committed(broker) is None
    await ack(broker, held[:1])
    assert await committed(broker) == 2


@pytest.mark.parametrize("journal", ["delivery", "group"])
async def test_a_journal_that_fails_before_the_decision_leaves_a_transaction_that_can_be_aborted(
    broker: Broker, storage: HeldStorage, journal: str
) -> None:
    held = await poll(broker, await join(broker))
    key, topic_id = await begin(broker), broker.topic("t").id
    failure = PartitionOffline(partition=journal, problem="a sync failed")
    settles: dict[str, object]
    if journal == "delivery":
        storage.hold(delivery_journal(broker), "sync").release(failure)
        settles = {"acks": [leased(held[:1], topic_id)]}
    else:
        storage.hold(GROUP_JOURNAL, "append").release(failure)
        settles = {"offsets": [GroupOffsetCommit("fresh", [CommitPart(topic_id, 0, 5)])]}
    with pytest.raises(PartitionOffline):
        await broker.transactions.commit([key], **settles)  # type: ignore[arg-type]
    await broker.transactions.abort([key])
    await broker.publish("out", [NewMessage(value=b"behind", partition=0)])
    page = await broker.read_messages("out", 0, BrowseRequest(offset=0, limit=10))
    assert [message.value for message in page.messages] == [b"behind"]
    assert [outcome.error for outcome in await ack(broker, held[:1])] == [None]


async def test_offsets_that_could_not_be_written_with_their_decision_do_not_undo_a_later_one(
    broker: Broker, storage: HeldStorage
) -> None:
    topic_id = broker.topic("t").id
    await broker.groups.stream_group("g")
    first, second = await broker.transactions.init(), await broker.transactions.init()
    storage.hold(STREAM_JOURNAL, "append").release(DiskFull(problem="it is full"))
    await broker.transactions.commit([first], offsets=[GroupOffsetCommit("g", [CommitPart(topic_id, 0, 3)])])
    assert await committed(broker) is None, "it is decided, and tried again"
    await broker.transactions.commit([second], offsets=[GroupOffsetCommit("g", [CommitPart(topic_id, 0, 6)])])
    await broker.streams.offsets.commit_decided(
        "g", {place(broker): (3, "")}, (first_id := broker.streams.group("g").transactions[0] - 1)
    )
    assert (await committed(broker), broker.streams.group("g").transactions) == (6, [first_id + 1, first_id])


async def test_offsets_of_a_transaction_count_once(broker: Broker) -> None:
    member = await join(broker)
    held = await poll(broker, member)
    offsets = broker.streams.offsets
    await offsets.commit_decided("g", {place(broker): (4, "")}, 77)
    await ack(broker, held[4:6])
    await asyncio.gather(*(offsets.commit_decided("g", {place(broker): (4, "")}, 77) for _ in range(3)))
    assert await committed(broker) == 6
