"""Numbers, health, lives and traces of several workers."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from quiver.metrics.series import PUBLISHED_MESSAGES
from quiver.model.errors import TraceNotFound
from quiver.model.message import NewMessage
from quiver.model.trace.span import TraceFilter
from quiver.routing.looks.sampler import joined_history
from quiver.system.shared_note import SharedMemoryNote
from quiver.testing.workers import WorkerSet

COUNT = 3
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
async def workers() -> AsyncIterator[WorkerSet]:
    async with WorkerSet(COUNT) as started:
        await started[0].broker.create_topic("t", {"partitions": 6})
        yield started


async def publish(workers: WorkerSet, count: int) -> None:
    await workers[1].broker.publish("t", [NewMessage(value=b"x", partition=n % 6) for n in range(count)])


async def published(workers: WorkerSet, worker: int) -> float:
    collected = await workers[worker].broker.metrics.collect()
    return sum(collected.of(PUBLISHED_MESSAGES).values())


async def test_no_counter_falls_when_a_worker_is_replaced(workers: WorkerSet) -> None:
    await publish(workers, 60)
    for worker in range(COUNT):
        assert await published(workers, worker) == 60
    for killed in range(COUNT):
        workers.kill(killed)
        asked = (killed + 1) % COUNT
        assert await published(workers, asked) == 60, "while it is gone"
        await workers.start(killed)
        for worker in range(COUNT):
            assert await published(workers, worker) == 60
    await publish(workers, 60)
    assert await published(workers, 2) == 120


def test_what_is_shared_is_kept() -> None:
    note = SharedMemoryNote("test")
    for length in (0, 10, 1000, 3, 500_000, 7, 2):
        found: list[bytes] = []

        def keep(old: bytes, found: list[bytes] = found) -> bytes:
            found.append(old)
            return old

        note.update(lambda _, length=length: b"x" * length)
        note.update(keep)
        assert found == [b"x" * length]
    note.close()


async def test_a_worker_that_is_gone_is_a_problem(workers: WorkerSet) -> None:
    assert (await workers[1].broker.node.health()).problems == {}
    cluster = await workers[1].broker.node.cluster()
    assert [(each.worker, each.partitions) for each in cluster.workers] == [(0, 2), (1, 2), (2, 2)]
    assert sorted(shard for each in cluster.workers for shard in each.group_shards) == list(range(16))
    workers.kill(2)
    assert list((await workers[1].broker.node.health()).problems) == ["worker 2"]
    [missing] = (await workers[1].broker.node.cluster()).missing
    assert (missing.worker, missing.last) == (2, cluster.workers[2]), "what it said last"
    await workers.start(2)
    assert (await workers[1].broker.node.health()).problems == {}


async def test_nobody_waits_again_for_a_worker_that_does_not_respond(workers: WorkerSet) -> None:
    node, peers = workers[1].broker.node, workers[1].peers
    workers.kill(2)
    assert [each.worker for each in (await node.cluster()).missing] == [2], "after the time of a look"
    link = peers.links_to(2)
    assert link is not None
    given_up = link.in_flight
    for _ in range(3):
        looks = await asyncio.gather(*(node.cluster() for _ in range(5)))
        assert [[each.worker for each in look.missing] for look in looks] == [[2]] * 5
        assert link.in_flight == given_up + 1, "one call, however many look"
    await workers.start(2)
    assert not (await node.cluster()).missing
    assert link.in_flight == 0


async def test_samples_are_added_up(workers: WorkerSet) -> None:
    for n in range(COUNT):
        await workers[n].local.sampler.latest()
    await publish(workers, 60)
    for n in range(COUNT):
        sampler = workers[n].local.sampler
        async with sampler._looking:
            await sampler._look()
    sample = await workers[2].broker.sampler.latest()
    own = await workers[2].local.sampler.latest()
    assert sample.rates.published_messages > own.rates.published_messages > 0
    assert [busy.topic for busy in sample.top_topics] == ["t"]
    [rates] = (await workers[0].broker.sampler.topic_rates()).values()
    assert rates.published_per_second > 0
    assert joined_history(
        {"seconds": [1.1, 2.1], "a": [1.0, 2.0], "publish_p99_ms": [5.0, 1.0]},
        [{"seconds": [2.7, 3.7], "a": [10.0, 20.0], "publish_p99_ms": [3.0, 9.0]}],
    ) == {"seconds": [1.1, 2.1], "a": [1.0, 12.0], "publish_p99_ms": [5.0, 3.0]}


async def test_lives_and_traces_are_found_at_their_owners(workers: WorkerSet) -> None:
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01".encode()}
    for number in range(6):
        await workers[0].broker.publish("t", [NewMessage(value=b"x", partition=number, headers=headers)])
    for asked in range(COUNT):
        for number in range(6):
            life = await workers[asked].broker.life.of("t", number, 0)
            assert [event.event for event in life.events] == ["published", "appended"]
            assert life.trace == TRACE
        trace = await workers[asked].broker.traces.get(TRACE)
        assert {(span.partition, span.event_type) for span in trace.spans} == {
            (number, "publish.persisted") for number in range(6)
        }
        [found] = await workers[asked].broker.traces.search(TraceFilter(topic="t"), 10)
        assert found == trace
        with pytest.raises(TraceNotFound):
            await workers[asked].broker.traces.get("1" * 32)
