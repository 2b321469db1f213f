"""Messages that come just while the log is searched, settlements that fail just while a snapshot is taken."""

import asyncio
from typing import Any

import pytest

from quiver.model.errors import DiskFull
from quiver.model.priority import Priority
from quiver.model.settlement import ACK, REJECT
from quiver.testing.held_storage import HeldStorage
from quiver.topics.partitions import partition_log_id
from unit.queues.queue_broker import QueueBroker, values

LARGE = bytes(900_000)


async def test_a_message_that_comes_during_a_search_is_delivered() -> None:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"first", priority=0)
    await queue.publish("jobs", LARGE, LARGE)
    # After a restart nobody knows how far a priority goes: the log is searched for more of it.
    await queue.restart()
    partition_queue = await queue.broker.queues.partition_queue(queue.broker.topic("jobs"), 0)
    log: Any = partition_queue.partition.log
    search, came = log.find_priority, []

    async def search_slowly(offset: int, priorities: int) -> int | None:
        found: int | None = await search(offset, priorities)
        if found is None and not came:
            came.append(offset)
            await queue.publish("jobs", b"late", priority=0)
        return found

    log.find_priority = search_slowly
    received = []
    for _ in range(4):
        received += values(await queue.receive("jobs", priority=Priority.CRITICAL))
    assert came == [1], "the log was searched behind the first message"
    assert received == [b"first", b"late"]
    await queue.broker.stop()


async def test_levels_that_are_empty_do_not_hold_back_a_group_that_begins_after_a_restart() -> None:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"a", b"b")
    await queue.restart()
    await queue.settle(await queue.receive("jobs"))
    depth = await queue.broker.queue_depths.of("jobs", "g")
    assert (depth.ready, depth.leased, depth.oldest_age_ms) == (0, 0, 0)
    await queue.publish("jobs", b"urgent", priority=0)
    assert values(await queue.receive("jobs")) == [b"urgent"]
    await queue.broker.stop()


async def test_a_settlement_that_is_undone_is_in_no_snapshot() -> None:
    storage = HeldStorage()
    queue = QueueBroker(storage)
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"a")
    received = await queue.receive("jobs")
    partition_queue = await queue.broker.queues.partition_queue(queue.broker.topic("jobs"), 0)
    hold = storage.hold(partition_log_id(queue.broker.topic("jobs").id, 0) + "-delivery", "append")
    rejecting = asyncio.ensure_future(queue.settle(received, REJECT))
    await hold.reached()
    saving = asyncio.ensure_future(partition_queue.journal.snapshot())
    for _ in range(10):  # as far as it comes by itself
        await asyncio.sleep(0)
    hold.release(DiskFull(problem="no space left"))
    [settlement] = await rejecting
    assert isinstance(settlement.refused[0].error, DiskFull)
    await asyncio.gather(saving, return_exceptions=True)
    after_a_kill = QueueBroker(storage.as_after_a_kill())
    await queue.broker.stop()
    await after_a_kill.start()
    await after_a_kill.wait(60_000)
    assert values(await after_a_kill.receive("jobs")) == [b"a"]
    await after_a_kill.broker.stop()


async def test_an_offset_passes_over_what_has_expired_when_that_is_on_disk() -> None:
    storage = HeldStorage()
    queue = QueueBroker(storage)
    await queue.start()
    topic = await queue.broker.create_topic("jobs", {"partitions": 1, "max_attempts": 1})
    await queue.publish("jobs", b"a")
    await queue.receive("jobs", visibility_ms=1_000)
    partition_queue = await queue.broker.queues.partition_queue(topic, 0)
    [group_id] = partition_queue.group_ids
    hold = storage.hold(f"topics/{topic.id}/0-delivery", "sync")
    await queue.wait(2_000)
    await hold.reached()
    assert partition_queue.settled_offset(group_id) == 0
    hold.release()
    while partition_queue.outbox.open:
        await asyncio.sleep(0)
    assert partition_queue.settled_offset(group_id) == 1
    await queue.broker.stop()


@pytest.mark.parametrize("action", [ACK, REJECT])
async def test_a_message_of_a_key_comes_when_the_one_before_it_is_settled_on_disk(action: int) -> None:
    storage = HeldStorage()
    queue = QueueBroker(storage)
    await queue.start()
    topic = await queue.broker.create_topic("jobs", {"partitions": 1})
    for value in (b"a", b"b"):
        await queue.publish("jobs", value, keys=[b"k"])
    received = await queue.receive("jobs", count=1, ordering="key")
    hold = storage.hold(f"topics/{topic.id}/0-delivery", "sync")
    settling = asyncio.ensure_future(queue.settle(received, action))
    await hold.reached()
    receiving = asyncio.ensure_future(queue.receive("jobs", consumer="other", count=1, ordering="key"))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not receiving.done(), "a power cut now would bring the first one back"
    hold.release()
    assert values(await receiving) == [b"b"]
    await settling
    await queue.broker.stop()


async def test_a_partition_that_fails_does_not_keep_others_from_their_snapshots() -> None:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"a")
    await queue.receive("jobs", visibility_ms=1_000)
    maintenance: Any = queue.broker.queues._maintenance
    saved = asyncio.Event()

    async def fail(partition_queue: Any) -> None:
        raise RuntimeError("a bug")

    async def note(failures: Any) -> None:
        saved.set()

    maintenance.expire, maintenance.save_snapshots = fail, note
    queue.clock.ms += 5_000
    async with asyncio.timeout(30):
        await saved.wait()
    await queue.broker.stop()
