"""The sampler on a broker in memory: rates come from counters, and nobody who looks slowly holds up the others."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.broker.broker import Broker
from quiver.messages.browse import BrowseRequest
from quiver.messages.fetch import FetchOptions, FetchPart
from quiver.model.message import NewMessage
from quiver.model.queue import ReceiveRequest
from quiver.records.build import build_frame
from quiver.storage.memory.storage import MemoryStorage
from quiver.telemetry.gateway_counts import GatewayCounts

LATER_SECONDS = 100.0


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def broker(clock: ManualClock) -> AsyncIterator[Broker]:
    broker = Broker(MemoryStorage(), clock=clock)
    await broker.start()
    yield broker
    await broker.stop()


async def publish(broker: Broker, topic: str, count: int) -> None:
    await broker.publish(topic, [NewMessage(value=b"v", partition=0) for _ in range(count)])


async def next_sample(broker: Broker, clock: ManualClock):
    clock.seconds += LATER_SECONDS
    return await broker.sampler.latest()


async def test_rates_are_differences_of_counters_over_the_time_between(broker: Broker, clock: ManualClock) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    await publish(broker, "orders", 7)
    first = await broker.sampler.latest()
    assert first.rates.published_messages == 0.0, "counters since the start are no rate"
    await publish(broker, "orders", 300)
    await broker.read_messages("orders", 0, BrowseRequest(limit=50))
    [fetched] = await broker.fetch([FetchPart(topic.id, 0, 7, 1 << 20)], FetchOptions(0, 1, 1 << 20))
    assert fetched.slice is not None
    fetched.slice.release()
    sample = await next_sample(broker, clock)
    assert sample.rates.published_messages == 300 / LATER_SECONDS
    assert sample.rates.read_messages == (50 + 300) / LATER_SECONDS
    assert sample.rates.read_bytes > 0 < sample.rates.published_bytes
    [busiest] = sample.top_topics
    assert (busiest.topic, busiest.rates.published_per_second) == ("orders", 3.0)
    assert (await broker.sampler.topic_rates())[topic.id].published_per_second == 3.0
    quiet = await next_sample(broker, clock)
    assert not any(quiet.rates)
    assert not quiet.top_topics


async def test_a_deleted_topic_and_one_with_its_name_make_no_rate_negative(
    broker: Broker, clock: ManualClock
) -> None:
    await broker.create_topic("orders", {"partitions": 1})
    await publish(broker, "orders", 1000)
    await broker.sampler.latest()
    await broker.delete_topic("orders")
    await broker.create_topic("orders", {"partitions": 1})
    await publish(broker, "orders", 100)
    sample = await next_sample(broker, clock)
    assert sample.rates.published_messages == 1.0


async def test_a_fetch_that_waited_counts_once(broker: Broker) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    fetch = asyncio.create_task(
        broker.fetch([FetchPart(topic.id, 0, 0, 1 << 20)], FetchOptions(60_000, 200, 1 << 20))
    )
    while not fetch.done():
        frame = build_frame([b"v"], timestamp_ms=1)
        await broker.produce(topic.id, 0, frame)
        await asyncio.sleep(0)
    [fetched] = await fetch
    assert fetched.slice is not None
    fetched.slice.release()
    [(_, [partition])] = broker._partitions.by_topic()
    assert partition.traffic.fetched_messages == fetched.slice.end_offset
    assert partition.traffic.fetched_bytes == fetched.slice.length


async def test_what_queues_deliver_is_read_too(broker: Broker, clock: ManualClock) -> None:
    topic = await broker.create_topic("emails", {"partitions": 1})
    await publish(broker, "emails", 10)
    await broker.sampler.latest()
    received = await broker.queues.receive(ReceiveRequest([topic.id], "senders", "one", max_messages=10))
    assert sum(each.run.end - each.run.start for each in received) == 10
    sample = await next_sample(broker, clock)
    assert sample.rates.delivered == sample.rates.read_messages == 10 / LATER_SECONDS
    assert sample.backlog.groups == 1


async def test_history_has_a_point_per_sample_and_forgets_the_oldest(broker: Broker, clock: ManualClock) -> None:
    for _ in range(905):
        await next_sample(broker, clock)
    history = await broker.sampler.history()
    assert {len(column) for column in history.values()} == {900}
    assert history["seconds"][-1] == clock.seconds
    assert history["published_messages"] == [0.0] * 900


async def test_the_99th_percentile_is_of_the_publishes_since_the_last_sample(
    broker: Broker, clock: ManualClock
) -> None:
    gateway = GatewayCounts("test", operations=["Produce"], publish="Produce")
    broker.sampler.gateways.append(gateway)
    gateway.publish.seconds.observe(9.0, 1000)
    await broker.sampler.latest()
    gateway.publish.seconds.observe(0.002, 100)
    assert 1.0 <= (await next_sample(broker, clock)).publish_p99_ms <= 2.5
    assert (await next_sample(broker, clock)).publish_p99_ms == 0.0


async def test_who_waits_gets_the_newest_and_none_at_the_end(broker: Broker, clock: ManualClock) -> None:
    first = await broker.sampler.latest()
    for _ in range(3):
        await next_sample(broker, clock)
    newest = await broker.sampler.following(first.number)
    assert newest is not None
    assert newest.number == first.number + 3, "those in between are skipped"
    waiting = asyncio.create_task(broker.sampler.following(newest.number))
    await asyncio.sleep(0)
    await next_sample(broker, clock)
    following = await waiting
    assert following is not None
    assert following.number == newest.number + 1
    waiting = asyncio.create_task(broker.sampler.following(following.number))
    await asyncio.sleep(0)
    await broker.sampler.stop()
    assert await waiting is None


async def test_the_backlog_counts_what_waits(broker: Broker, clock: ManualClock) -> None:
    topic = await broker.create_topic("orders", {"partitions": 1})
    await publish(broker, "orders", 5)
    await broker.publish("orders", [NewMessage(value=b"v", deliver_at_ms=clock.now_ms() + 10**9)])
    await broker.queues.receive(ReceiveRequest([topic.id], "g", "one", max_messages=2))
    backlog = (await broker.sampler.latest()).backlog
    assert (backlog.lag_messages, backlog.delayed, backlog.groups) == (3, 1, 1)
    assert backlog.log_bytes > 0
