"""Transactions through the broker: what readers see, who is fenced, what a commit brings about and refuses."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.unit.queues.queue_broker import QueueBroker

from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchOptions, FetchPart
from quiver.model.errors import (
    DiskFull,
    GroupKindMismatch,
    GroupNotEmpty,
    InvalidRequest,
    LeaseLost,
    MemberFenced,
    OutOfSequence,
    PartitionOffline,
    ProducerFenced,
    TransactionConflict,
    TransactionNotFound,
    UnknownProducer,
)
from quiver.model.limits import DAY_MS
from quiver.model.message import NewMessage
from quiver.model.names import TopicPartition
from quiver.model.position import LATEST
from quiver.model.transaction import CommitPart, GroupOffsetCommit, LeasedAcks, ProducerKey
from quiver.partition.partition import Partition
from quiver.queues.service import Received
from quiver.records.build import build_frame
from quiver.records.read import open_frame
from quiver.streams.member import Subscription
from quiver.testing.held_storage import HeldStorage
from quiver.transactions.coordinator import LOG_ID as TRANSACTION_JOURNAL


class Bank(QueueBroker):
    """A broker with words for transactions."""

    async def init(self, transactional_id: str | None = "id", **options: Any) -> ProducerKey:
        return await self.broker.transactions.init(transactional_id, **options)

    def send(self, key: ProducerKey, topic: str, partition: int, *values: bytes, sequence: int = 0) -> Any:
        frame = build_frame(
            list(values),
            timestamp_ms=self.clock.ms,
            producer_id=key.producer_id,
            producer_epoch=key.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return self.broker.produce(self.broker.topic(topic).id, partition, frame)

    async def say(self, key: ProducerKey, topic: str, value: bytes, **options: Any) -> Any:
        sequence = options.pop("sequence", None)
        message = NewMessage(value=value, **options)
        return await self.broker.transactions.publish(key.producer_id, key.epoch, topic, message, sequence=sequence)

    async def commit(self, *keys: ProducerKey, **options: Any) -> ProducerKey:
        return (await self.broker.transactions.commit(keys, **options)).producers[0]

    async def abort(self, *keys: ProducerKey) -> ProducerKey:
        return (await self.broker.transactions.abort(keys)).producers[0]

    async def read(self, topic: str, *, committed: bool = True) -> list[bytes | None]:
        found = []
        for number in range(self.broker.topic(topic).config.partitions):
            page = await self.broker.read_messages(topic, number, BrowseRequest(limit=1000, read_committed=committed))
            found += [message.value for message in page.messages]
        return found

    def offsets(self, group: str, topic: str, **options: Any) -> list[GroupOffsetCommit]:
        parts = [CommitPart(self.broker.topic(topic).id, 0, options.pop("offset", 1))]
        return [GroupOffsetCommit(group, parts, **options)]

    def committed(self, group: str, topic: str) -> int | None:
        participant = TopicPartition(self.broker.topic(topic).id, 0)
        found = self.broker.streams.group(group).offsets.get(participant)
        return None if found is None else found.offset

    def partition(self, topic: str, number: int = 0) -> Partition:
        return self.broker._partitions.get(self.broker.topic(topic).id, number)


def acks_of(received: list[Received]) -> list[LeasedAcks]:
    return [
        LeasedAcks(one.topic.id, run.partition, run.group_id, run.lease_id, [(run.start, run.end)])
        for one in received
        for run in [one.run]
    ]


def values_of(received: list[Received]) -> list[bytes | None]:
    return [value for one in received for value in open_frame(one.run.frame).values()]


@pytest_asyncio.fixture
async def bank() -> AsyncIterator[Bank]:
    bank = Bank()
    await bank.start()
    await bank.broker.create_topic("a", {"partitions": 2})
    await bank.broker.create_topic("b", {"partitions": 1})
    yield bank
    await bank.broker.stop()


async def test_nothing_is_seen_before_the_commit_and_everything_after(bank: Bank) -> None:
    key = await bank.init()
    await bank.send(key, "a", 0, b"1", b"2")
    await bank.send(key, "a", 1, b"3")
    await bank.say(key, "b", b"4")
    assert await bank.read("a") == await bank.read("b") == []
    assert await bank.read("a", committed=False) == [b"1", b"2", b"3"]
    following = await bank.commit(key)
    assert following == ProducerKey(key.producer_id, key.epoch + 1)
    assert (await bank.read("a"), await bank.read("b")) == ([b"1", b"2", b"3"], [b"4"])
    await bank.send(following, "a", 0, b"5")
    await bank.abort(following)
    assert await bank.read("a") == [b"1", b"2", b"3"]
    assert await bank.read("a", committed=False) == [b"1", b"2", b"5", b"3"]


async def test_messages_behind_an_open_transaction_wait_for_it(bank: Bank) -> None:
    key = await bank.init()
    await bank.publish("b", b"before")
    await bank.send(key, "b", 0, b"in it")
    await bank.publish("b", b"behind")
    assert await bank.read("b") == [b"before"]
    assert await bank.broker.find_offset(bank.broker.topic("b").id, 0, LATEST) == 1
    await bank.abort(key)
    assert await bank.read("b") == [b"before", b"behind"]


async def test_fetch_ends_at_the_last_stable_offset_and_names_what_was_aborted(bank: Bank) -> None:
    topic = bank.broker.topic("b").id
    one, two = await bank.init("one"), await bank.init("two")
    await bank.send(one, "b", 0, b"1")
    await bank.send(two, "b", 0, b"2")
    await bank.abort(one)

    async def fetch(offset: int, *, committed: bool) -> Any:
        part = FetchPart(topic, 0, offset, 10**6)
        [found] = await bank.broker.fetch([part], FetchOptions(0, 1, 10**6, read_committed=committed))
        return found

    found = await fetch(0, committed=True)
    assert (found.last_stable, found.high_watermark, found.aborted) == (1, 3, ((one.producer_id, 0),))
    found.slice.release()
    waiting = await fetch(1, committed=True)
    assert (waiting.slice, waiting.error) == (None, None)
    found = await fetch(1, committed=False)
    assert found.slice is not None
    assert found.aborted == ()
    found.slice.release()


async def test_a_commit_twice_gets_the_same_answer_and_a_late_one_is_refused(bank: Bank) -> None:
    key = await bank.init()
    await bank.send(key, "b", 0, b"1")
    first = await bank.broker.transactions.commit([key])
    again = await bank.broker.transactions.commit([key])
    assert (again.producers, again.is_repeat) == (first.producers, True)
    [following] = first.producers
    await bank.send(following, "b", 0, b"2")
    with pytest.raises(ProducerFenced):
        await bank.abort(key)
    assert await bank.commit(key) == following, "the answer is about the transaction before"
    assert await bank.read("b") == [b"1"]
    later = await bank.abort(following)
    with pytest.raises(ProducerFenced):
        await bank.commit(key)
    with pytest.raises(ProducerFenced):
        await bank.commit(following)
    assert later.epoch == key.epoch + 2


async def test_the_same_key_gets_the_same_answer_whoever_asks(bank: Bank) -> None:
    one, two = await bank.init(None), await bank.init(None)
    await bank.send(one, "b", 0, b"1")
    await bank.send(two, "b", 0, b"again")
    first = await bank.broker.transactions.commit([one], key="batch 7")
    second = await bank.broker.transactions.commit([two], key="batch 7")
    assert (second.producers, second.is_repeat) == (first.producers, True)
    await bank.abort(two)
    assert await bank.read("b") == [b"1"]
    await bank.restart()
    assert (await bank.broker.transactions.commit([two], key="batch 7")).producers == first.producers


async def test_several_producers_count_together(bank: Bank) -> None:
    keys = [await bank.init(None) for _ in range(3)]
    for number, key in enumerate(keys):
        await bank.send(key, "a", number % 2, b"%d" % number)
    stale = ProducerKey(keys[2].producer_id, keys[2].epoch + 1)
    with pytest.raises(ProducerFenced):
        await bank.commit(keys[0], keys[1], stale)
    assert await bank.read("a") == []
    answer = await bank.broker.transactions.commit(keys)
    assert answer.producers == [ProducerKey(key.producer_id, 1) for key in keys]
    assert sorted(await bank.read("a")) == [b"0", b"1", b"2"]
    assert (await bank.broker.transactions.commit(keys)).is_repeat
    with pytest.raises(InvalidRequest):
        await bank.commit(keys[0], keys[0])


async def test_an_instance_that_takes_over_fences_the_one_before(bank: Bank) -> None:
    old = await bank.init()
    await bank.send(old, "b", 0, b"old")
    new = await bank.init()
    assert new == ProducerKey(old.producer_id, old.epoch + 1)
    for attempt in (bank.commit(old), bank.abort(old)):
        with pytest.raises(ProducerFenced):
            await attempt
    with pytest.raises(ProducerFenced):
        await bank.send(old, "b", 0, b"zombie", sequence=1)
    with pytest.raises(ProducerFenced):
        await bank.broker.transactions.heartbeat(old.producer_id, old.epoch)
    await bank.send(new, "b", 0, b"new")
    await bank.commit(new)
    assert await bank.read("b") == [b"new"]


async def test_who_never_said_init_has_no_transactions(bank: Bank) -> None:
    producer_id, epoch = await bank.broker.init_producer()
    with pytest.raises(UnknownProducer):
        await bank.send(ProducerKey(producer_id, epoch), "b", 0, b"x")
    with pytest.raises(UnknownProducer):
        await bank.commit(ProducerKey(4711, 0))
    with pytest.raises(TransactionNotFound):
        await bank.broker.transactions.describe("nobody", -1)


async def test_init_producer_of_one_with_transactions_ends_what_it_has_open(bank: Bank) -> None:
    key = await bank.init()
    await bank.send(key, "b", 0, b"x")
    assert await bank.broker.init_producer(key.producer_id, key.epoch) == (key.producer_id, 1)
    with pytest.raises(ProducerFenced):
        await bank.commit(key)
    with pytest.raises(ProducerFenced):
        await bank.broker.init_producer(key.producer_id, key.epoch)


async def test_heartbeats_bring_a_transaction_no_further_than_the_broker_allows(bank: Bank) -> None:
    minute_ms = 60_000
    with pytest.raises(InvalidRequest, match="transaction_max"):
        await bank.init(timeout_ms=15 * minute_ms + 1)
    key = await bank.init(timeout_ms=2 * minute_ms)
    await bank.send(key, "b", 0, b"x")
    for minute in range(1, 15):
        bank.clock.ms += minute_ms
        await bank.broker.transactions.heartbeat(key.producer_id, key.epoch)
        bank.broker.transactions._aborts.begin_overdue()
        assert (await bank.broker.transactions.stats()).active == 1, minute
    bank.clock.ms += minute_ms
    await bank.broker.transactions.heartbeat(key.producer_id, key.epoch)
    bank.broker.transactions._aborts.begin_overdue()
    await asyncio.gather(*bank.broker.transactions._aborts.timeouts.values())
    assert (await bank.broker.transactions.stats())[:3] == (0, 0, 1)


async def test_a_transaction_that_takes_too_long_is_aborted(bank: Bank) -> None:
    key = await bank.init(timeout_ms=1000)
    await bank.send(key, "b", 0, b"x")
    bank.clock.ms += 900
    await bank.broker.transactions.heartbeat(key.producer_id, key.epoch)
    bank.clock.ms += 900
    bank.broker.transactions._aborts.begin_overdue()
    assert (await bank.broker.transactions.stats()).active == 1
    bank.clock.ms += 101
    bank.broker.transactions._aborts.begin_overdue()
    await asyncio.gather(*bank.broker.transactions._aborts.timeouts.values())
    assert (await bank.broker.transactions.stats())[:3] == (0, 0, 1)
    assert bank.partition("b").committed.last_stable == 2
    with pytest.raises(ProducerFenced):
        await bank.commit(key)
    assert await bank.abort(key) == ProducerKey(key.producer_id, 1)


async def test_what_was_open_is_aborted_at_the_next_start(bank: Bank) -> None:
    key, other = await bank.init(), await bank.init("other")
    await bank.send(key, "b", 0, b"x")
    await bank.restart()
    assert await bank.read("b") == []
    assert bank.partition("b").committed.last_stable == 2
    with pytest.raises(ProducerFenced):
        await bank.commit(key)
    await bank.send(other, "b", 0, b"y")
    await bank.commit(other)
    assert await bank.read("b") == [b"y"], "who had nothing open goes on as before"


async def test_offsets_alone_do_not_survive_a_restart_half(bank: Bank) -> None:
    await bank.publish("b", b"in")
    key = await bank.init()
    await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("g", "b"))
    await bank.restart()
    with pytest.raises(ProducerFenced):
        await bank.commit(key)
    assert bank.committed("g", "b") is None


def key_of(key: ProducerKey) -> tuple[int, int]:
    return key.producer_id, key.epoch


async def test_offsets_of_two_groups_count_with_the_commit(bank: Bank) -> None:
    await bank.publish("b", b"1", b"2", b"3")
    key = await bank.init()
    await bank.send(key, "a", 0, b"out")
    await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("g", "b", offset=2))
    await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("g", "b", offset=3))
    assert bank.committed("g", "b") is None
    await bank.commit(key, offsets=bank.offsets("h", "b", offset=1))
    assert (bank.committed("g", "b"), bank.committed("h", "b")) == (3, 1)
    await bank.restart()
    assert (bank.committed("g", "b"), bank.committed("h", "b")) == (3, 1)


async def test_offsets_of_an_aborted_transaction_never_were(bank: Bank) -> None:
    await bank.publish("b", b"1")
    key = await bank.init()
    await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("g", "b"))
    await bank.abort(key)
    assert bank.committed("g", "b") is None
    with pytest.raises(InvalidRequest):
        await bank.commit(ProducerKey(key.producer_id, 1), offsets=bank.offsets("g", "b", offset=99))


async def test_a_member_that_lost_its_partition_cannot_commit_its_offsets(bank: Bank) -> None:
    await bank.publish("b", b"1")
    view = await bank.broker.streams.join("g", Subscription(client_id="c", topics=["b"]))
    key = await bank.init()
    await bank.send(key, "a", 0, b"out")
    offsets = bank.offsets("g", "b", member_id=view.member_id, generation=view.generation)
    await bank.broker.transactions.add_offsets(*key_of(key), offsets)
    with pytest.raises(GroupNotEmpty):
        await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("g", "b"))
    await bank.broker.streams.members.leave("g", view.member_id)
    with pytest.raises(Exception, match="not a member") as lost:
        await bank.commit(key)
    assert not isinstance(lost.value, MemberFenced | ProducerFenced)
    assert await bank.read("a") == []
    assert (await bank.broker.transactions.stats()).active == 1, "it is open until it is aborted"
    await bank.abort(key)
    assert bank.committed("g", "b") is None


async def test_a_queue_group_has_no_offsets_to_commit(bank: Bank) -> None:
    await bank.receive("b", group="q")
    key = await bank.init()
    with pytest.raises(GroupKindMismatch):
        await bank.broker.transactions.add_offsets(*key_of(key), bank.offsets("q", "b", offset=0))


async def test_acks_count_with_the_commit(bank: Bank) -> None:
    await bank.publish("b", b"1", b"2")
    received = await bank.receive("b")
    key = await bank.init()
    await bank.send(key, "a", 0, b"out")
    await bank.broker.transactions.add_acks(*key_of(key), acks_of(received))
    depth = await bank.broker.queue_depths.of("b", "g")
    assert depth.leased == 2
    await bank.commit(key)
    depth = await bank.broker.queue_depths.of("b", "g")
    assert (depth.leased, depth.ready) == (0, 0)
    await bank.restart()
    assert await bank.receive("b") == []
    assert await bank.read("a") == [b"out"]


async def test_a_lease_that_is_over_fails_the_commit(bank: Bank) -> None:
    await bank.publish("b", b"1")
    await bank.publish("a", b"other")
    kept, lost = await bank.receive("a", consumer="kept"), await bank.receive("b")
    key = await bank.init()
    await bank.send(key, "a", 1, b"out")
    await bank.wait(31_000)
    again = await bank.receive("b", consumer="faster")
    assert values_of(again) == [b"1"]
    with pytest.raises(LeaseLost):
        await bank.commit(key, acks=acks_of(kept) + acks_of(lost))
    assert await bank.read("a") == [b"other"]
    await bank.abort(key)
    assert values_of(await bank.receive("a")) == [b"other"], "what was acknowledged with it never was"


async def test_acks_of_an_aborted_transaction_never_were(bank: Bank) -> None:
    await bank.publish("b", b"1")
    received = await bank.receive("b")
    key = await bank.init()
    await bank.broker.transactions.add_acks(*key_of(key), acks_of(received))
    await bank.abort(key)
    await bank.wait(31_000)
    assert values_of(await bank.receive("b")) == [b"1"]


async def test_queues_deliver_what_is_committed_and_count_it(bank: Bank) -> None:
    await bank.publish("b", b"plain")
    await bank.settle(await bank.receive("b"))
    one, two = await bank.init("one"), await bank.init("two")
    await bank.send(one, "b", 0, b"never", b"never")
    await bank.send(two, "b", 0, b"later")
    await bank.publish("b", b"urgent", priority=0)
    assert await bank.receive("b") == []
    await bank.abort(one)
    assert await bank.receive("b") == []
    assert (await bank.broker.queue_depths.of("b", "g")).ready == 0
    waiting = asyncio.ensure_future(bank.receive("b", wait_ms=5000))
    while not any(queue.waiting for queue in bank.broker.queues._topic_queues._known.values()):
        await asyncio.sleep(0)
    await bank.commit(two)
    assert sorted(values_of(await waiting)) == [b"later", b"urgent"]
    assert await bank.receive("b") == []


@pytest.mark.parametrize("ordering", ["none", "key"])
async def test_an_urgent_open_transaction_does_not_hold_up_what_is_in_front(bank: Bank, ordering: Any) -> None:
    await bank.publish("b", b"first", keys=[b"k"])
    key = await bank.init()
    frame = build_frame([b"urgent"], timestamp_ms=1, priority=0, transactional=True, **header_words(key))
    await bank.broker.produce(bank.broker.topic("b").id, 0, frame)
    received = await bank.receive("b", ordering=ordering)
    assert values_of(received) == [b"first"]
    await bank.settle(received)
    await bank.commit(key)
    assert values_of(await bank.receive("b")) == [b"urgent"]


def header_words(key: ProducerKey) -> dict[str, Any]:
    return {"producer_id": key.producer_id, "producer_epoch": key.epoch, "base_sequence": 0}


async def test_the_lag_of_a_group_is_that_of_committed_messages(bank: Bank) -> None:
    key = await bank.init()
    await bank.publish("b", b"1")
    await bank.send(key, "b", 0, b"2")
    await bank.broker.streams.join("g", Subscription(client_id="c", topics=["b"]))

    async def lag() -> int:
        [part] = await bank.broker.lag.of("g")
        return part.messages

    assert await lag() == 1
    await bank.commit(key)
    assert await lag() == 2
    key = ProducerKey(key.producer_id, 1)
    await bank.send(key, "b", 0, b"3")
    await bank.abort(key)
    assert await lag() == 2, "neither markers nor what was aborted is waited for at the end"


async def test_delayed_messages_wait_for_the_commit_too(bank: Bank) -> None:
    one, two = await bank.init("one"), await bank.init("two")
    due = bank.clock.ms + 1000
    published = await bank.say(one, "b", b"never", deliver_at_ms=due)
    assert published.delayed
    await bank.say(two, "b", b"late", deliver_at_ms=due)
    assert (await bank.broker.delays.page("b", skip=0, limit=9)).total == 0
    await bank.abort(one)
    await bank.commit(two)
    page = await bank.broker.delays.page("b", skip=0, limit=9)
    assert (page.total, [message.id for message in page.messages]) == (1, [1])
    three = await bank.init("three")
    await bank.say(three, "b", b"open", deliver_at_ms=due)
    await bank.restart()
    assert (await bank.broker.delays.page("b", skip=0, limit=9)).total == 1
    bank.clock.ms += 1000
    delays = bank.broker.delays._partitions.get(bank.broker.topic("b").id, 0)
    assert delays is not None
    while not await bank.read("b"):
        await delays.deliver_due()
        await asyncio.sleep(0)
    assert await bank.read("b") == [b"late"]


async def test_single_messages_have_sequences_of_their_own_beginning(bank: Bank) -> None:
    key = await bank.init()
    assert not (await bank.say(key, "b", b"1", sequence=5)).duplicate
    assert await bank.say(key, "b", b"1", sequence=5) == (0, 0, True, False, False)
    await bank.say(key, "b", b"2", sequence=9)
    with pytest.raises(OutOfSequence):
        await bank.say(key, "b", b"?", sequence=7)
    await bank.say(key, "b", b"3")
    await bank.send(key, "a", 0, b"native")
    await bank.say(key, "a", b"and single", partition=0)
    following = await bank.commit(key)
    assert await bank.read("b") == [b"1", b"2", b"3"]
    assert (await bank.say(following, "b", b"4", sequence=0)).offset == 4
    await bank.commit(following)


async def test_a_commit_waits_for_what_is_under_way_and_takes_nothing_more(bank: Bank) -> None:
    key = await bank.init()
    sent = bank.send(key, "b", 0, b"1")
    commit = asyncio.ensure_future(bank.commit(key))
    await commit
    assert (await sent).base_offset == 0
    assert await bank.read("b") == [b"1"]


async def test_a_transaction_with_a_frame_missing_is_not_committed(bank: Bank) -> None:
    key = await bank.init()
    await bank.send(key, "b", 0, b"1")
    with pytest.raises(OutOfSequence):
        await bank.send(key, "b", 0, b"3", sequence=2)
    with pytest.raises(InvalidRequest, match="sequence 2"):
        await bank.commit(key)
    await bank.send(key, "b", 0, b"2", sequence=1)
    await bank.send(key, "b", 0, b"3", sequence=2)
    await bank.commit(key)
    assert await bank.read("b") == [b"1", b"2", b"3"]


async def test_members_of_one_group_bring_their_own_offsets(bank: Bank) -> None:
    await bank.publish("a", b"1", partition=0)
    await bank.publish("a", b"2", partition=1)
    views = [await bank.broker.streams.join("g", Subscription(client_id=name, topics=["a"])) for name in "xy"]
    members, topic = bank.broker.streams.members, bank.broker.topic("a").id
    for _ in range(3):
        seen = [await members.heartbeat("g", view.member_id) for view in views]
        views = [await members.heartbeat("g", view.member_id, revoked=view.revoke) for view in seen]
    offsets = [
        GroupOffsetCommit("g", [CommitPart(topic, participant.partition, 1)], view.member_id, view.generation)
        for view in views
        for participant in view.assigned
    ]
    assert len(offsets) == 2
    await bank.commit(await bank.init(), offsets=offsets)
    assert sorted((p.partition, c.offset) for p, c in bank.broker.streams.group("g").offsets.items()) == [
        (0, 1),
        (1, 1),
    ]


async def test_a_marker_that_cannot_be_written_is_tried_until_it_is(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await bank.init()
    await bank.send(key, "a", 0, b"1")
    await bank.send(key, "b", 0, b"2")
    stuck = bank.partition("b")
    append = Partition.append_marker
    problem: list[Exception] = [DiskFull(problem="it is full")]

    def refuse(self: Partition, *words: Any, **more: Any) -> Any:
        if self is stuck and problem:
            raise problem[0]
        return append(self, *words, **more)

    monkeypatch.setattr(Partition, "append_marker", refuse)
    monkeypatch.setattr("quiver.transactions.decision_applier._FIRST_PAUSE_SECONDS", 0.001)
    following = await bank.commit(key)
    assert (await bank.read("a"), await bank.read("b")) == ([b"1"], [])
    [info], total = await bank.broker.transactions.list()
    assert (info.state, total) == ("committing", 1)
    assert ("b", 0) in info.partitions
    with pytest.raises(TransactionConflict):
        await bank.send(following, "b", 0, b"too early")
    problem.clear()
    while not await bank.read("b"):
        await asyncio.sleep(0)
    await bank.send(following, "b", 0, b"3")
    await bank.commit(following)
    assert await bank.read("b") == [b"2", b"3"]


async def test_a_partition_that_was_offline_gets_its_marker_at_the_next_start(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await bank.init()
    await bank.send(key, "a", 0, b"1")
    await bank.send(key, "b", 0, b"2")
    offline = bank.partition("b")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PartitionOffline(partition="b-0", problem="gone")

    monkeypatch.setattr(offline, "append_marker", refuse)
    await bank.commit(key)
    assert (await bank.read("a"), await bank.read("b")) == ([b"1"], [])
    await bank.restart()
    assert await bank.read("b") == [b"2"]


async def test_a_topic_that_is_gone_holds_nobody_up(bank: Bank) -> None:
    key = await bank.init()
    await bank.send(key, "a", 0, b"1")
    await bank.send(key, "b", 0, b"2")
    await bank.broker.delete_topic("b")
    await bank.commit(key)
    assert await bank.read("a") == [b"1"]
    await bank.broker.transactions._applier.flush()
    assert await bank.broker.transactions.list() == ([], 0)


async def test_what_is_open_is_listed_and_what_ended_is_described(bank: Bank) -> None:
    transactions = bank.broker.transactions
    key = await bank.init("mine", timeout_ms=5000)
    assert (await transactions.describe("mine", -1)).state == "empty"
    begun = await transactions.begin(*key_of(key))
    await transactions.add_partition(*key_of(key), "a", 1)
    await bank.send(key, "b", 0, b"1")
    [info], _ = await transactions.list()
    assert (info.transaction_id, info.state, info.timeout_ms) == (begun.transaction_id, "open", 5000)
    assert info.partitions == [("a", 1), ("b", 0)]
    await bank.commit(key)
    await transactions._applier.flush()
    assert (await transactions.list(), (await transactions.describe("mine", -1)).state) == (([], 0), "committed")
    assert (await transactions.stats())[:3] == (0, 1, 0)


async def test_bad_requests_are_refused(bank: Bank) -> None:
    for words in ((None, 0), (None, 86_400_001), ("", 1000), ("x" * 241, 1000)):
        with pytest.raises(InvalidRequest):
            await bank.broker.transactions.init(*words)
    key = await bank.init()
    with pytest.raises(InvalidRequest):
        await bank.broker.transactions.commit([])
    with pytest.raises(InvalidRequest):
        await bank.commit(key, key="")
    with pytest.raises(InvalidRequest):
        await bank.commit(key, acks=[LeasedAcks(1, 0, 1, 1, [(5, 4)])])
    with pytest.raises(LeaseLost):
        await bank.commit(key, acks=[LeasedAcks(1, 0, 1, 1, [(0, 1)])])


async def test_a_producer_that_is_being_forgotten_begins_nothing_more() -> None:
    storage = HeldStorage()
    bank = Bank(storage)
    await bank.start()
    await bank.broker.create_topic("t", {"partitions": 1})
    key = await bank.init(None)
    hold = storage.hold(TRANSACTION_JOURNAL, "append")
    bank.clock.ms += 2 * DAY_MS
    forgetting = asyncio.ensure_future(bank.broker.transactions._coordinator.maintain())
    await hold.reached()
    with pytest.raises(UnknownProducer):
        bank.send(key, "t", 0, b"nobody could end its transaction")
    hold.release()
    await forgetting
    await bank.publish("t", b"a")
    assert await bank.read("t") == [b"a"]
    await bank.broker.stop()
