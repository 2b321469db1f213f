"""Pausing a queue group in a topic, and who holds what."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.model.errors import GroupKindMismatch, GroupNotFound
from quiver.queues.leases import LeaseCursor
from unit.queues.queue_broker import QueueBroker


@pytest.fixture
async def queues() -> AsyncIterator[QueueBroker]:
    found = QueueBroker()
    await found.start()
    for topic in ("t", "u"):
        await found.broker.create_topic(topic, {"partitions": 2})
    yield found
    await found.broker.stop()


async def receive(
    queues: QueueBroker, topic: str = "t", *, wait_ms: int = 0, count: int = 10, ordering: str | None = None
) -> list[tuple[int, int]]:
    """Partition and offset of what a consumer gets."""
    options = {} if ordering is None else {"ordering": ordering}
    found = await queues.receive(topic, consumer="me", count=count, wait_ms=wait_ms, visibility_ms=30_000, **options)
    return sorted((one.run.partition, offset) for one in found for offset in range(one.run.start, one.run.end))


async def test_a_paused_group_gets_nothing_from_its_topic_also_after_a_restart(queues: QueueBroker) -> None:
    await queues.publish("t", b"a", b"b")
    await queues.publish("u", b"c")
    assert await receive(queues, count=1) == [(0, 0)]
    await queues.broker.queues.pause("t", "g", "a move")
    await queues.broker.queues.pause("t", "g", "a long move")
    assert await receive(queues) == []
    assert await receive(queues, "u") == [(0, 0)], "the pause is of one topic"
    depth = await queues.broker.queue_depths.of("t", "g")
    assert (depth.ready, depth.leased, depth.pause_reason) == (1, 1, "a long move")
    assert depth.paused_since_ms == queues.clock.ms
    await queues.restart()
    assert await receive(queues) == []
    assert (await queues.broker.queue_depths.of("t", "g")).pause_reason == "a long move"
    await queues.broker.queues.resume("t", "g")
    await queues.broker.queues.resume("t", "g")
    assert await receive(queues) == [(0, 1)]
    assert (await queues.broker.queue_depths.of("t", "g")).paused_since_ms is None


async def test_receivers_wait_and_are_served_when_the_group_is_resumed(queues: QueueBroker) -> None:
    assert await receive(queues) == []
    await queues.broker.queues.pause("t", "g")
    waiting = asyncio.ensure_future(receive(queues, wait_ms=60_000))
    await asyncio.sleep(0)
    await queues.publish("t", b"a")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    await queues.broker.queues.resume("t", "g")
    assert await waiting == [(0, 0)]


async def test_leases_go_on_while_the_group_is_paused(queues: QueueBroker) -> None:
    await queues.publish("t", b"a", b"b")
    assert await receive(queues) == [(0, 0), (0, 1)]
    await queues.broker.queues.pause("t", "g")
    page = await queues.broker.queue_leases.page("t", "g", limit=10)
    assert [(held.partition, held.offset, held.consumer, held.attempt) for held in page.leases] == [
        (0, 0, "me", 1),
        (0, 1, "me", 1),
    ]
    assert page.leases[0].until_ms == queues.clock.ms + 30_000
    await queues.wait(31_000)
    page = await queues.broker.queue_leases.page("t", "g", limit=10)
    assert page.leases == []
    await queues.broker.queues.resume("t", "g")
    assert await receive(queues) == [(0, 0), (0, 1)]
    page = await queues.broker.queue_leases.page("t", "g", limit=10)
    assert [held.attempt for held in page.leases] == [2, 2]


async def test_leases_come_in_pages(queues: QueueBroker) -> None:
    for number in (0, 1):
        await queues.publish("t", *[b"x"] * 5, partition=number)
    assert len(await receive(queues)) == 10
    seen: list[tuple[int, int]] = []
    after: LeaseCursor | None = None
    for _ in range(20):
        page = await queues.broker.queue_leases.page("t", "g", limit=3, after=after)
        seen += [(held.partition, held.offset) for held in page.leases]
        after = page.next
        if after is None:
            break
    assert seen == [(number, offset) for number in (0, 1) for offset in range(5)]


async def test_keys_that_wait_are_named_with_what_they_wait_for(queues: QueueBroker) -> None:
    await queues.publish("t", b"1", b"2", b"3", b"4", keys=[b"a", b"a", b"b", b"a"])
    assert await receive(queues, count=1, ordering="key") == [(0, 0)]
    page = await queues.broker.queue_leases.page("t", "g", limit=10)
    assert [(held.offset, held.key) for held in page.leases] == [(0, b"a")]
    assert [tuple(key) for key in page.blocked_keys] == [(b"a", 0, 0, 2)]


async def test_who_cannot_be_paused(queues: QueueBroker) -> None:
    with pytest.raises(GroupNotFound):
        await queues.broker.queues.pause("t", "g")
    await receive(queues)
    with pytest.raises(GroupNotFound):
        await queues.broker.queues.resume("u", "g")
    async with queues.broker.groups.locks.hold("s"):
        await queues.broker.groups.stream_group("s")
    with pytest.raises(GroupKindMismatch):
        await queues.broker.groups.pause("s", 1, "")
