"""Messages that come just while the log is searched are not passed over."""

from typing import Any

from quiver.model.priority import Priority
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
