"""Receivers that wait: woken by whatever gives them something, served in order, held back by what they hold."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.cluster.placement import GROUP_SHARDS
from quiver.model.errors import GroupNotEmpty, GroupNotFound, ShuttingDown, TopicNotFound
from quiver.model.priority import Priority
from quiver.model.settlement import ACK, NACK
from quiver.queues.partition.partition_queue import PartitionQueue
from quiver.queues.service import Received
from unit.queues.queue_broker import QueueBroker, numbered, part_of, values

LONG_MS = 300_000


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 3})
    yield queue
    await queue.broker.stop()


class Waiters:
    """Receives under way, begun one after the other, each waiting when the next begins."""

    def __init__(self, queue: QueueBroker) -> None:
        self._queue = queue
        self.tasks: list[asyncio.Task[list[Received]]] = []

    async def add(self, *topics: str, **options: object) -> "asyncio.Task[list[Received]]":
        task = asyncio.create_task(self._queue.receive(*(topics or ("jobs",)), wait_ms=LONG_MS, **options))
        self.tasks.append(task)
        await settle_down()
        assert not task.done()
        return task

    async def done(self) -> list[bool]:
        await settle_down()
        return [task.done() for task in self.tasks]


async def settle_down() -> None:
    """Everything that can go on without news has done so."""
    for _ in range(50):
        await asyncio.sleep(0)


async def within(task: "asyncio.Task[list[Received]]") -> list[Received]:
    return await asyncio.wait_for(task, 10)


@pytest.fixture
async def waiters(queue: QueueBroker) -> AsyncIterator[Waiters]:
    waiters = Waiters(queue)
    yield waiters
    for task in waiters.tasks:
        task.cancel()
    await asyncio.gather(*waiters.tasks, return_exceptions=True)


async def test_a_message_wakes_whoever_waits_longest(queue: QueueBroker, waiters: Waiters) -> None:
    for consumer in "abc":
        await waiters.add(consumer=consumer, count=1)
    for number in range(3):
        await queue.publish("jobs", b"m%d" % number, partition=2 - number)
        assert values(await within(waiters.tasks[number])) == [b"m%d" % number]
        assert await waiters.done() == [place <= number for place in range(3)]


async def test_one_frame_serves_many(queue: QueueBroker, waiters: Waiters) -> None:
    for _ in range(5):
        await waiters.add(count=3)
    await queue.publish("jobs", *numbered(10), partition=1)
    got = [values(await within(task)) for task in waiters.tasks[:4]]
    assert got == [numbered(10)[at : at + 3] for at in range(0, 10, 3)]
    assert await waiters.done() == [True] * 4 + [False]


async def test_whoever_waits_for_another_level_is_passed_over(queue: QueueBroker, waiters: Waiters) -> None:
    critical = await waiters.add(priority=Priority.CRITICAL)
    anything = await waiters.add()
    await queue.publish("jobs", b"normal")
    assert values(await within(anything)) == [b"normal"]
    assert not critical.done()
    await queue.publish("jobs", b"critical", priority=0)
    assert values(await within(critical)) == [b"critical"]


async def test_given_back_expired_and_due_messages_wake(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.publish("jobs", *numbered(3))
    [received] = await queue.receive("jobs", visibility_ms=10_000)
    await waiters.add(count=1)
    await queue.broker.queues.settle([part_of(received, NACK, runs=[(2, 3)], delay_ms=0)])
    assert values(await within(waiters.tasks[0])) == [b"m2"]
    await waiters.add(count=1)
    await queue.broker.queues.settle([part_of(received, NACK, runs=[(1, 2)], delay_ms=1_000)])
    assert await waiters.done() == [True, False]
    await queue.wait(1_001)
    assert values(await within(waiters.tasks[1])) == [b"m1"]
    await waiters.add(count=1)
    await queue.wait(10_000)
    assert values(await within(waiters.tasks[2])) == [b"m0"]


async def test_the_next_of_a_key_wakes(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.publish("jobs", b"a1", b"a2", keys=[b"a", b"a"])
    [received] = await queue.receive("jobs", count=1, ordering="key")
    await waiters.add()
    await queue.settle([received])
    assert values(await within(waiters.tasks[0])) == [b"a2"]


async def test_nothing_comes_and_the_time_is_over(queue: QueueBroker) -> None:
    assert await queue.receive("jobs", wait_ms=1) == []


async def test_a_consumer_that_holds_too_much_waits_and_others_go_on(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.broker.alter_topic("jobs", {"max_unacked": 4})
    for partition in range(3):
        await queue.publish("jobs", *numbered(4), partition=partition)
    held = await queue.receive("jobs", consumer="greedy")
    assert len(values(held)) == 4
    assert await queue.receive("jobs", consumer="greedy") == []
    greedy = await waiters.add(consumer="greedy")
    assert len(values(await queue.receive("jobs", consumer="modest"))) == 4
    assert not greedy.done()
    await queue.broker.queues.settle([part_of(held[0], ACK, runs=[(held[0].run.start, held[0].run.start + 1)])])
    assert len(values(await within(greedy))) == 1


async def test_an_ack_makes_room_before_it_is_on_disk(
    queue: QueueBroker, waiters: Waiters, monkeypatch: pytest.MonkeyPatch
) -> None:
    await queue.broker.alter_topic("jobs", {"max_unacked": 1})
    await queue.publish("jobs", *numbered(2))
    held, waiting = await queue.receive("jobs"), await waiters.add()
    synced = asyncio.Event()
    monkeypatch.setattr(PartitionQueue, "durable", lambda _: synced.wait())
    acking = asyncio.create_task(queue.settle(held))
    assert values(await within(waiting)) == [b"m1"]
    assert not acking.done()
    synced.set()
    assert not (await acking)[0].refused


async def test_the_limit_holds_after_a_restart_and_ends_with_the_lease(queue: QueueBroker) -> None:
    await queue.broker.alter_topic("jobs", {"max_unacked": 5})
    await queue.publish("jobs", *numbered(10))
    await queue.receive("jobs", count=3)
    await queue.restart()
    assert len(values(await queue.receive("jobs"))) == 2
    assert await queue.receive("jobs") == []
    await queue.wait(30_001)
    assert len(values(await queue.receive("jobs"))) == 5


async def test_a_higher_limit_wakes(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.broker.alter_topic("jobs", {"max_unacked": 1})
    await queue.publish("jobs", *numbered(3))
    await queue.receive("jobs")
    waiting = await waiters.add()
    await queue.broker.alter_topic("jobs", {"max_unacked": 2})
    assert values(await within(waiting)) == [b"m1"]


async def test_who_gives_up_while_waiting_leaves_the_message_to_others(queue: QueueBroker, waiters: Waiters) -> None:
    gone, stays = await waiters.add(count=1), await waiters.add(count=1)
    gone.cancel()
    await settle_down()
    await queue.publish("jobs", b"a")
    [received] = await within(stays)
    assert (values([received]), received.run.attempt) == ([b"a"], 1)


@pytest.mark.parametrize("turns", range(12))
async def test_whenever_a_receive_is_given_up_nothing_is_lost_or_counted(queue: QueueBroker, turns: int) -> None:
    for partition in range(3):
        await queue.publish("jobs", *numbered(5), partition=partition)
    given_up = asyncio.create_task(queue.receive("jobs", consumer="gone"))
    for _ in range(turns):
        await asyncio.sleep(0)
    given_up.cancel()
    outcome = await asyncio.gather(given_up, return_exceptions=True)
    if isinstance(outcome[0], list):
        await queue.broker.queues.give_back(outcome[0])
    found: list[Received] = []
    while len(values(found)) < 15:
        found += await asyncio.wait_for(queue.receive("jobs", wait_ms=LONG_MS), 10)
    assert sorted(values(found)) == sorted(numbered(5) * 3)
    assert {one.run.attempt for one in found} == {1}


async def test_a_deleted_topic_ends_the_waiting(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.broker.create_topic("other", {"partitions": 1})
    one, both = await waiters.add("jobs"), await waiters.add("other", "jobs")
    await queue.broker.delete_topic("jobs")
    for task in (one, both):
        with pytest.raises(TopicNotFound):
            await within(task)
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"again")
    assert values(await queue.receive("jobs")) == [b"again"]


@pytest.mark.parametrize("turns", range(12))
async def test_whenever_a_topic_is_deleted_the_receive_says_so(queue: QueueBroker, turns: int) -> None:
    receiving = asyncio.create_task(queue.receive("jobs", wait_ms=LONG_MS))
    for _ in range(turns):
        await asyncio.sleep(0)
    await queue.broker.delete_topic("jobs")
    with pytest.raises(TopicNotFound):
        await within(receiving)
    assert queue.broker.node.problems() == {}


async def test_a_group_that_is_waited_in_is_not_deleted(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.publish("jobs", b"a")
    received = await queue.receive("jobs")
    waiting = await waiters.add()
    with pytest.raises(GroupNotEmpty):
        await queue.broker.group_admin.delete("g")
    waiting.cancel()
    await settle_down()
    await queue.broker.group_admin.delete("g")
    with pytest.raises(GroupNotFound):
        await queue.broker.queue_depths.of("jobs", "g")
    assert [refused.error.code for refused in (await queue.settle(received))[0].refused] == ["lease_lost"]
    [again] = await queue.receive("jobs")
    assert (again.run.attempt, again.run.group_id) == (1, received[0].run.group_id + GROUP_SHARDS)


async def test_a_stop_ends_the_waiting(queue: QueueBroker, waiters: Waiters) -> None:
    waiting = await waiters.add()
    await queue.broker.stop()
    with pytest.raises(ShuttingDown):
        await within(waiting)
    await queue.restart()


async def test_partitions_that_are_added_wake(queue: QueueBroker, waiters: Waiters) -> None:
    waiting = await waiters.add()
    await queue.broker.add_partitions("jobs", 5)
    await settle_down()
    await queue.publish("jobs", b"a", partition=4)
    assert values(await within(waiting)) == [b"a"]


async def test_several_topics_are_waited_for_at_once(queue: QueueBroker, waiters: Waiters) -> None:
    await queue.broker.create_topic("other", {"partitions": 1})
    for topic in ("other", "jobs"):
        waiting = await waiters.add("jobs", "other")
        await queue.publish(topic, topic.encode())
        [received] = await within(waiting)
        assert (received.topic.name, values([received])) == (topic, [topic.encode()])


async def test_several_topics_take_turns(queue: QueueBroker) -> None:
    await queue.broker.create_topic("other", {"partitions": 1})
    for topic in ("jobs", "other"):
        await queue.publish(topic, *numbered(20, topic))
    names = [(await queue.receive("jobs", "other", count=5))[0].topic.name for _ in range(4)]
    assert sorted(names[:2]) == sorted(names[2:]) == ["jobs", "other"]
    rest = await queue.receive("jobs", "other")
    assert (len(values(rest)), {one.topic.name for one in rest}) == (20, {"jobs", "other"})
