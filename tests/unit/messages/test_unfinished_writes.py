"""A frame that the writing thread has stored, and the loop has not heard of yet: nobody passes over it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchOptions, FetchPart
from quiver.model.settlement import ACK, Receipt
from quiver.testing.held_storage import HeldStorage, Hold
from unit.queues.queue_broker import QueueBroker, values

Look = Callable[[QueueBroker], Awaitable[object]]


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    """A topic with one message, which group g has acked."""
    storage = HeldStorage()
    queue = QueueBroker(storage)
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 1})
    await queue.publish("jobs", b"done")
    await queue.settle(await queue.receive("jobs"))
    yield queue
    storage.release_all()
    await queue.broker.stop()


async def publish_halfway(queue: QueueBroker, value: bytes, priority: int = 2) -> tuple[Hold, asyncio.Task[None]]:
    assert isinstance(queue.storage, HeldStorage)
    hold = queue.storage.hold(f"topics/{queue.broker.topic('jobs').id}/0", "appended")
    task = asyncio.create_task(queue.publish("jobs", value, priority=priority))
    await hold.reached()
    return hold, task


async def ack_one(queue: QueueBroker) -> object:
    """As HTTP does: the answer says how far the group is."""
    await queue.broker.queues.give_back(await queue.receive("jobs"))
    [one] = await queue.receive("jobs", count=1)
    run = one.run
    receipt = Receipt("jobs", 0, run.start, run.attempt, run.group_id, run.lease_id)
    [outcome] = await queue.broker.queues.settle_receipts(ACK, [receipt])
    assert (outcome.error, outcome.committed_offset, outcome.offset_advanced) == (None, 2, True)
    return outcome


LOOKS: dict[str, Look] = {
    "ack": ack_one,
    "depth": lambda queue: queue.broker.queue_depths.of("jobs", "g"),
    "depths": lambda queue: queue.broker.queue_depths.of_all("jobs"),
    "lag": lambda queue: queue.broker.lag.of("g"),
    "describe": lambda queue: queue.broker.group_admin.describe("g"),
    "priorities": lambda queue: queue.broker.queue_stats.priorities(),
    "reset": lambda queue: queue.broker.offset_reset.reset("g", "jobs", 0, dry_run=True),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.parametrize("priority", [2, 0])
async def test_whoever_looks_hides_nothing_that_is_being_written(
    queue: QueueBroker, look: Look, priority: int
) -> None:
    await queue.publish("jobs", b"leased")
    if look is not ack_one:
        await queue.settle(await queue.receive("jobs"))
    hold, publishing = await publish_halfway(queue, b"new", priority)
    await look(queue)
    assert await queue.receive("jobs") == []
    hold.release()
    await publishing
    assert values(await queue.receive("jobs")) == [b"new"]


async def test_readers_see_it_when_the_loop_has_heard_of_it(queue: QueueBroker) -> None:
    topic = queue.broker.topic("jobs")
    hold, publishing = await publish_halfway(queue, b"new")
    [before] = await queue.broker.fetch([FetchPart(topic.id, 0, 1, 1000)], FetchOptions(0, 1, 1000))
    assert (before.slice, before.high_watermark, before.last_stable) == (None, 1, 1)
    page = await queue.broker.read_messages("jobs", 0, BrowseRequest(offset=0, limit=10))
    details = await queue.broker.describe("jobs")
    assert (len(page.messages), page.next_offset, details.partitions[0].end_offset) == (1, 1, 1)
    waiting = asyncio.create_task(
        queue.broker.fetch([FetchPart(topic.id, 0, 1, 1000)], FetchOptions(60_000, 1, 1000))
    )
    receiving = asyncio.create_task(queue.receive("jobs", wait_ms=60_000))
    await asyncio.sleep(0)
    hold.release()
    await publishing
    [after] = await waiting
    assert after.slice is not None
    after.slice.release()
    assert (after.high_watermark, after.last_stable) == (2, 2)
    assert values(await receiving) == [b"new"]


async def test_levels_that_were_found_empty_are_looked_at_again_after_a_rewind(queue: QueueBroker) -> None:
    await queue.publish("jobs", b"urgent", priority=0)
    await queue.settle(await queue.receive("jobs"))
    for value in (b"a", b"b"):
        await queue.publish("jobs", value)
    await queue.restart()
    assert values(await queue.receive("jobs")) == [b"a", b"b"], "of all levels this one alone has something behind"
    await queue.broker.queues.rewind(queue.broker.topic("jobs"), "g", {0: 0})
    assert sorted(values(await queue.receive("jobs"))) == [b"a", b"b", b"done", b"urgent"]
