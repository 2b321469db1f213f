"""Counters of queues on a clock that stands still."""

from collections.abc import AsyncIterator

import pytest

from quiver.model.settlement import ACK, EXTEND, NACK, REJECT
from quiver.queues.stats import Settled
from unit.queues.queue_broker import QueueBroker, numbered, part_of


@pytest.fixture
async def queue() -> AsyncIterator[QueueBroker]:
    queue = QueueBroker()
    await queue.start()
    await queue.broker.create_topic("jobs", {"partitions": 2})
    yield queue
    await queue.broker.stop()


async def test_everything_that_is_settled_is_counted_by_topic_and_group(queue: QueueBroker) -> None:
    assert await queue.broker.queue_stats.reliability() == (Settled(), {})
    await queue.publish("jobs", *numbered(6))
    [one] = await queue.receive("jobs", group="g")
    for action, run in ((ACK, (0, 2)), (NACK, (2, 3)), (REJECT, (3, 4)), (EXTEND, (4, 5))):
        await queue.broker.queues.settle([part_of(one, action, runs=[run])])
    await queue.receive("jobs", group="h", count=1)
    stats = await queue.broker.queue_stats.reliability()
    of_g = Settled(delivered=6, acks=2, nacks=1, rejects=1, extensions=1, dead=1, in_flight=2)
    of_h = Settled(delivered=1, in_flight=1)
    total = Settled(delivered=7, acks=2, nacks=1, rejects=1, extensions=1, dead=1, in_flight=3)
    assert (stats.total, stats.topics["jobs"]) == (total, (total, {"g": of_g, "h": of_h}))
    await queue.wait(30_001)
    after = (await queue.broker.queue_stats.reliability()).topics["jobs"][1]
    assert (after["g"].expired_leases, after["g"].in_flight, after["h"].expired_leases) == (2, 0, 1)


async def test_what_is_ready_and_in_flight_by_priority(queue: QueueBroker) -> None:
    await queue.publish("jobs", *numbered(3), priority=1)
    await queue.publish("jobs", *numbered(2), partition=1)
    before = await queue.broker.queue_stats.priorities()
    assert before.stored == [0, 3, 2, 0, 0]
    assert [before.topics["jobs"][number].ready for number in (0, 1)] == [[0, 3, 0, 0, 0], [0, 0, 2, 0, 0]]
    await queue.receive("jobs", count=2)
    shown = (await queue.broker.queue_stats.priorities()).topics["jobs"]
    assert (shown[0].ready, shown[0].in_flight) == ([0, 1, 0, 0, 0], [0, 2, 0, 0, 0])
    assert (shown[1].ready, shown[1].in_flight) == ([0, 0, 2, 0, 0], [0] * 5)
    await queue.receive("jobs", group="another", count=1)
    shown = (await queue.broker.queue_stats.priorities()).topics["jobs"]
    assert (shown[0].ready, shown[0].in_flight) == ([0, 3, 0, 0, 0], [0, 3, 0, 0, 0])
    assert shown[1].ready == [0, 0, 4, 0, 0], "what a group has not begun to read is ready for it"


async def test_rates_and_waits(queue: QueueBroker) -> None:
    await queue.wait(10_000)
    await queue.publish("jobs", *numbered(20), priority=3)
    await queue.wait(4_000)
    await queue.receive("jobs", count=10)
    stats = await queue.broker.queue_stats.priorities()
    assert stats.average_wait_ms == [0, 0, 0, 4_000, 0]
    shown = stats.topics["jobs"][0]
    assert shown.last_served_ms == [0, 0, 0, queue.clock.ms, 0]
    assert shown.enqueue_rate == [0, 0, 0, pytest.approx(20 / 14), 0]
    assert shown.dequeue_rate == [0, 0, 0, pytest.approx(10 / 14), 0]
    for _ in range(7):
        await queue.wait(10_000)
        shown = (await queue.broker.queue_stats.priorities()).topics["jobs"][0]
    assert shown.enqueue_rate == shown.dequeue_rate == [0] * 5, "a minute later nothing comes and goes"
