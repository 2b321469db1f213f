"""Receive and settle through the broker, on the memory engine and a clock that stands still."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from quiver.model.errors import (
    GroupKindMismatch,
    GroupOrderingMismatch,
    InvalidRequest,
    LeaseLost,
    QuiverError,
    ShuttingDown,
    TopicNotFound,
)
from quiver.model.message import NewMessage
from quiver.model.position import LATEST, Position
from quiver.model.priority import Priority
from quiver.model.settlement import ACK, EXTEND, NACK, REJECT, Receipt, SettleRequest
from quiver.streams.member import Subscription
from unit.queues.queue_broker import QueueBroker, numbered, part_of, values


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 3})
    yield queue
    await queue.broker.stop()


async def test_messages_are_leased_once_and_settled(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(5), partition=1)
    received = await queue.receive("jobs", count=3)
    assert values(received) == numbered(5)[:3]
    [run] = [one.run for one in received]
    assert (run.partition, run.start, run.end, run.attempt, run.last_error) == (1, 0, 3, 1, "")
    assert (run.first_delivered_ms, run.deadline_ms) == (queue.clock.ms, queue.clock.ms + 30_000)
    assert received[0].visibility_ms == 30_000
    assert values(await queue.receive("jobs")) == numbered(5)[3:]
    assert await queue.receive("jobs") == []
    [settlement] = await queue.settle(received)
    assert settlement.refused == []
    [again] = await queue.settle(received)
    assert [(refused.start, refused.end, type(refused.error)) for refused in again.refused] == [(0, 3, LeaseLost)]


async def test_a_lease_that_ends_is_delivered_again_and_counted(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"a")
    first = await queue.receive("jobs")
    await queue.wait(29_000)
    assert await queue.receive("jobs") == []
    await queue.wait(1_001)
    second = await queue.receive("jobs", consumer="other")
    assert (values(second), second[0].run.attempt) == ([b"a"], 2)
    assert second[0].run.first_delivered_ms == first[0].run.first_delivered_ms
    assert second[0].run.last_error == "the lease expired"
    [late] = await queue.settle(first)
    assert [refused.error.code for refused in late.refused] == ["lease_lost"]
    assert (await queue.settle(second))[0].refused == []


async def test_a_late_ack_counts_while_nobody_else_has_the_message(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"a")
    received = await queue.receive("jobs")
    await queue.wait(60_000)
    assert (await queue.settle(received))[0].refused == []
    await queue.wait(60_000)
    assert await queue.receive("jobs") == []


async def test_nacked_messages_come_back_when_they_are_due(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(4))
    received = await queue.receive("jobs")
    [settlement] = await queue.broker.queues.settle(
        [part_of(received[0], NACK, runs=[(1, 2)], delay_ms=5_000, reason="not now")]
    )
    assert settlement.until_ms == queue.clock.ms + 5_000
    assert await queue.receive("jobs") == []
    await queue.wait(5_001)
    [again] = await queue.receive("jobs")
    assert (values([again]), again.run.attempt, again.run.last_error) == (
        [b"m1"],
        2,
        "not now",
    )


async def test_a_nack_without_delay_can_be_had_at_once_and_may_not_count(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"a")
    for _ in range(10):
        [received] = await queue.receive("jobs")
        assert received.run.attempt == 1
        await queue.settle([received], NACK, delay_ms=0, is_counted=False)
    [received] = await queue.receive("jobs")
    await queue.settle([received], NACK, delay_ms=0)
    assert (await queue.receive("jobs"))[0].run.attempt == 2


async def test_an_extended_lease_lasts_longer(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"a")
    received = await queue.receive("jobs", visibility_ms=1_000)
    assert received[0].run.deadline_ms == queue.clock.ms + 1_000
    [settlement] = await queue.settle(received, EXTEND, delay_ms=10_000)
    assert settlement.until_ms == queue.clock.ms + 10_000
    await queue.wait(9_000)
    assert await queue.receive("jobs") == []
    await queue.wait(1_001)
    assert len(await queue.receive("jobs")) == 1


async def test_two_groups_do_not_disturb_each_other(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(3))
    one = await queue.receive("jobs", group="one")
    two = await queue.receive("jobs", group="two")
    assert values(one) == values(two) == numbered(3)
    await queue.settle(one)
    await queue.settle(two, NACK, delay_ms=0)
    assert await queue.receive("jobs", group="one") == []
    assert values(await queue.receive("jobs", group="two")) == numbered(3)


async def test_one_unacked_message_blocks_nothing_else(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(10))
    await queue.receive("jobs", count=1)
    for number in range(1, 10):
        received = await queue.receive("jobs", count=1)
        assert values(received) == [b"m%d" % number]
        await queue.settle(received)


async def test_a_group_begins_where_its_first_receive_says(queue: QueueBroker) -> None:
    for partition in range(3):
        await queue.publish("jobs", b"old", partition=partition)
    assert await queue.receive("jobs", start=LATEST) == []
    for partition in range(3):
        await queue.publish("jobs", b"new", partition=partition)
    assert values(await queue.receive("jobs")) == [b"new"] * 3
    assert values(await queue.receive("jobs", group="all")) == [b"old", b"new"] * 3
    assert values(await queue.receive("jobs", group="second", start=Position("offset", 1))) == [b"new"] * 3


async def test_where_a_group_begins_is_decided_once(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"first", partition=0)
    assert values(await queue.receive("jobs")) == [b"first"]
    await queue.publish("jobs", b"second", partition=2)
    await queue.restart()
    assert values(await queue.receive("jobs", start=LATEST)) == [b"second"]


async def test_what_a_group_is_stays_fixed(queue: QueueBroker) -> None:
    await queue.receive("jobs", group="keyed", ordering="key")
    await queue.receive("jobs", group="keyed")
    with pytest.raises(GroupOrderingMismatch):
        await queue.receive("jobs", group="keyed", ordering="none")
    await queue.receive("jobs", group="plain")
    with pytest.raises(GroupOrderingMismatch):
        await queue.receive("jobs", group="plain", ordering="key")
    await queue.broker.streams.join("stream", Subscription(client_id="c", topics=frozenset({"jobs"})))
    with pytest.raises(GroupKindMismatch):
        await queue.receive("jobs", group="stream")
    with pytest.raises(GroupKindMismatch):
        await queue.broker.streams.join("plain", Subscription(client_id="c", topics=frozenset({"jobs"})))


@pytest.mark.parametrize(
    ("topics", "options"),
    [
        (["jobs"], {"count": 0}),
        (["jobs"], {"count": 10_001}),
        (["jobs"], {"wait_ms": -1}),
        (["jobs"], {"wait_ms": 300_001}),
        (["jobs"], {"visibility_ms": 0}),
        (["jobs"], {"consumer": ""}),
        (["jobs"], {"consumer": "x" * 241}),
        ([], {}),
    ],
)
async def test_bad_requests_are_refused(queue: QueueBroker, topics: list[str], options: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest):
        await queue.receive(*topics, **options)


async def test_a_missing_topic_makes_no_group(queue: QueueBroker) -> None:
    with pytest.raises(TopicNotFound):
        await queue.receive("jobs", "nothing")
    assert queue.broker.groups.groups() == {}


async def test_bad_settlements_are_refused_and_spoil_nothing(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(3))
    [received] = await queue.receive("jobs")
    good = part_of(received, ACK)
    bad = [
        part_of(received, 7),
        part_of(received, ACK, runs=[(2, 2)]),
        part_of(received, ACK, runs=[(-1, 2)]),
        part_of(received, NACK, delay_ms=-5),
        SettleRequest(999, 0, 1, 1, ACK, [(0, 1)]),
        SettleRequest(good.topic_id, 99, 1, 1, ACK, [(0, 1)]),
        SettleRequest(good.topic_id, 0, 99, 1, ACK, [(0, 1)]),
        SettleRequest(good.topic_id, 0, good.group_id, 12345, ACK, [(0, 3)]),
    ]
    settlements = await queue.broker.queues.settle([*bad, good])
    codes = [[refused.error.code for refused in settlement.refused] for settlement in settlements]
    assert codes == [["invalid_request"]] * 4 + [["lease_lost"]] * 4 + [[]]


async def test_an_ack_never_swallows_a_nack_of_the_same_call(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(3))
    [received] = await queue.receive("jobs")
    parts = [
        part_of(received, NACK, runs=[(1, 2)], delay_ms=0),
        part_of(received, ACK, runs=[(0, 3)]),
    ]
    nacked, acked = await queue.broker.queues.settle(parts)
    assert nacked.refused == []
    assert [(refused.start, refused.end) for refused in acked.refused] == [(1, 2)]
    assert values(await queue.receive("jobs")) == [b"m1"]


async def test_receipts_are_settled_each_for_itself(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(4))
    [received] = await queue.receive("jobs")
    run = received.run

    def receipt(offset: int, **changes: int | str) -> Receipt:
        return Receipt("jobs", 0, offset, 1, run.group_id, run.lease_id)._replace(**changes)

    receipts = [
        receipt(0),
        receipt(1, topic="nothing"),
        receipt(1, lease_id=99),
        receipt(0),
        receipt(2),
        receipt(77),
        receipt(1, group_id=99),
        receipt(1, partition=2),
    ]
    outcomes = await queue.broker.queues.settle_receipts(ACK, receipts)
    assert [outcome.error.code if outcome.error else "" for outcome in outcomes] == [
        "",
        "lease_lost",
        "lease_lost",
        "lease_lost",
        "",
        "lease_lost",
        "lease_lost",
        "lease_lost",
    ]
    done = outcomes[0]
    assert (done.topic, done.partition, done.offset, done.attempt) == ("jobs", 0, 0, 1)
    assert (done.committed_offset, done.offset_advanced) == (1, True)
    [nacked] = await queue.broker.queues.settle_receipts(NACK, [receipt(1)], delay_ms=500, reason="busy")
    assert (nacked.error, nacked.until_ms, nacked.dlq_topic) == (None, queue.clock.ms + 500, None)
    [rejected] = await queue.broker.queues.settle_receipts(REJECT, [receipt(3)], reason="bad")
    assert (rejected.error, rejected.dlq_topic) == (None, "jobs.dlq")


async def test_out_of_attempts_a_message_is_dead(queue: QueueBroker) -> None:
    await queue.broker.alter_topic("jobs", {"max_attempts": 2})
    await queue.publish("jobs", b"a")
    for attempt in (1, 2):
        [received] = await queue.receive("jobs")
        assert received.run.attempt == attempt
        [settlement] = await queue.settle([received], NACK, delay_ms=0, reason="no")
    assert [(dead.reason, dead.error) for dead in settlement.dead] == [("max_attempts", "no")]
    assert await queue.receive("jobs") == []
    assert values(await queue.receive("jobs.dlq", group="reader")) == [b"a"]


async def test_settings_of_the_group_come_before_those_of_the_topic(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(3))
    await queue.receive("jobs", count=1)
    await queue.broker.group_admin.alter("g", {"visibility": "5m"})
    [received] = await queue.receive("jobs", count=1)
    assert received.visibility_ms == 300_000
    await queue.broker.group_admin.alter("g", {"visibility": None})
    await queue.broker.alter_topic("jobs", {"visibility": "10s"})
    [received] = await queue.receive("jobs", count=1)
    assert received.visibility_ms == 10_000


async def test_one_level_alone(queue: QueueBroker) -> None:
    for priority in range(5):
        await queue.publish("jobs", b"p%d" % priority, priority=priority, partition=priority % 3)
    assert values(await queue.receive("jobs", priority=Priority.LOW)) == [b"p3"]
    assert await queue.receive("jobs", priority=Priority.LOW) == []
    assert sorted(values(await queue.receive("jobs"))) == [b"p0", b"p1", b"p2", b"p4"]


async def test_max_bytes_bound_an_answer(queue: QueueBroker) -> None:
    for partition in range(3):
        await queue.publish("jobs", *(bytes([partition]) * 10_000 for _ in range(10)), partition=partition)
    seen = []
    while received := await queue.receive("jobs", max_bytes=25_000):
        assert sum(len(one.run.frame) for one in received) <= 25_000 + 11_000  # one message more at most
        assert all(one.run.attempt == 1 for one in received)
        seen += values(received)
        await queue.settle(received)
        await queue.wait(0)
    assert len(seen) == 30
    assert len(await queue.receive("jobs", group="tiny", max_bytes=1)) == 1


async def test_messages_past_their_time_are_not_delivered(queue: QueueBroker) -> None:
    await queue.broker.create_topic("short", {"partitions": 1, "ttl": "1s"})
    await queue.publish("short", b"old")
    await queue.wait(1_001)
    await queue.publish("short", b"new")
    assert values(await queue.receive("short")) == [b"new"]


async def test_state_outlives_a_restart(queue: QueueBroker) -> None:
    for partition in range(3):
        await queue.publish("jobs", *numbered(10), partition=partition)
    received = await queue.receive("jobs", count=12)
    await queue.settle(received[:1])
    await queue.restart()
    assert (await queue.settle(received[1:]))[0].refused == []
    rest = await queue.receive("jobs")
    assert len(values(rest)) == 18
    await queue.restart()
    await queue.wait(30_001)
    again = await queue.receive("jobs")
    assert len(values(again)) == 18
    assert {one.run.attempt for one in again} == {2}


async def test_a_stopped_broker_says_so(queue: QueueBroker) -> None:
    await queue.broker.stop()
    with pytest.raises(ShuttingDown):
        await queue.receive("jobs")
    await queue.restart()


async def test_a_partition_that_fails_holds_up_itself_alone(
    queue: QueueBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in range(3):
        await queue.publish("jobs", b"%d" % partition, partition=partition)
    broken = queue.broker._partitions.get(queue.broker.topic("jobs").id, 1).log
    monkeypatch.setattr(broken, "read", _fail)
    assert sorted(values(await queue.receive("jobs"))) == [b"0", b"2"]
    await queue.publish("jobs", b"more", partition=1)
    assert await queue.receive("jobs") == []
    await queue.publish("jobs", b"3", partition=2)
    assert values(await queue.receive("jobs")) == [b"3"]


async def test_where_nothing_can_be_read_a_receive_fails(queue: QueueBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = await queue.broker.create_topic("single", {"partitions": 1})
    await queue.publish("single", b"a")
    monkeypatch.setattr(queue.broker._partitions.get(topic.id, 0).log, "read", _fail)
    with pytest.raises(QuiverError):
        await queue.receive("single")
    monkeypatch.undo()
    await queue.publish("single", b"b")
    assert values(await queue.receive("single")) == [b"a", b"b"]


async def _fail(*_: object, **__: object) -> None:
    raise OSError("the disk is gone")


async def test_a_receiver_takes_a_certain_key_or_a_few_keys(queue: QueueBroker) -> None:
    keys = [b"a", b"b", b"c", b"a", b"b", b"a"]
    messages = [NewMessage(value=key + b"%d" % number, key=key) for number, key in enumerate(keys)]
    await queue.publish_each("jobs", *messages)
    options: dict[str, Any] = {"ordering": "key", "group": "lanes"}
    certain = await queue.receive("jobs", key=b"b", **options)
    assert values(certain) == [b"b1", b"b4"]
    assert await queue.receive("jobs", key=b"b", **options) == []  # its lane is held
    assert await queue.receive("jobs", key=b"nobody", **options) == []
    [first, *others] = [values(await queue.receive("jobs", max_keys=1, **options)) for _ in range(3)]
    assert sorted([first, *others]) == [[], [b"a0", b"a3", b"a5"], [b"c2"]]
    await queue.settle(certain)
    await queue.publish_each("jobs", NewMessage(value=b"b6", key=b"b"))
    assert values(await queue.receive("jobs", key=b"b", **options)) == [b"b6"]


async def test_a_receiver_of_a_certain_key_waits_for_it_alone(queue: QueueBroker) -> None:
    options: dict[str, Any] = {"ordering": "key", "group": "lanes", "wait_ms": 60_000}
    waiting = asyncio.create_task(queue.receive("jobs", key=b"b", **options))
    await asyncio.sleep(0)
    await queue.publish_each("jobs", NewMessage(value=b"a0", key=b"a"))
    assert values(await queue.receive("jobs", max_keys=5, consumer="other", **options)) == [b"a0"]
    assert not waiting.done()
    await queue.publish_each("jobs", NewMessage(value=b"b0", key=b"b"))
    assert values(await waiting) == [b"b0"]


async def test_only_groups_that_are_ordered_by_key_take_certain_keys(queue: QueueBroker) -> None:
    for limit in ({"key": b"a"}, {"max_keys": 1}):
        with pytest.raises(InvalidRequest, match="not ordered by key"):
            await queue.receive("jobs", **limit)
    with pytest.raises(InvalidRequest, match="at least 1"):
        await queue.receive("jobs", group="lanes", ordering="key", max_keys=0)
