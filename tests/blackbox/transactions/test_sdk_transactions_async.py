"""Transactions of the asynchronous SDK, and of an embedded broker."""

import asyncio
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import ProducerFenced


async def values(q: quiver.AsyncClient, topic: str) -> list[bytes]:
    return sorted([message.value async for message in q.read(topic, end="latest")])


async def test_consume_transform_produce(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q:
        for topic in ("in", "jobs", "out"):
            await q.topics.create(topic, partitions=1)
        await q.publish("in", b"message")
        await q.publish("jobs", b"job")
        async with q.stream("in", group="g", auto_commit=False) as stream, q.work("jobs", group="w") as work:
            async for message in stream:
                job = await work.next_job()
                async with q.transaction("async") as tx:
                    await tx.publish("out", message.value + b" and " + job.value, key="k")
                    await tx.send_many("out", [b"a", b"b"])
                    await tx.commit_offsets(stream)
                    await tx.ack(job)
                break
        assert await values(q, "out") == [b"a", b"b", b"message and job"]
        assert (await q.groups.describe("g")).partitions[0].lag == 0
        depth = await q.queues.depth("jobs", "w")
        assert (depth.ready, depth.leased) == (0, 0)


async def test_a_cancelled_task_aborts(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q:
        await q.topics.create("cancelled")
        reached = asyncio.Event()

        async def wait() -> None:
            async with q.transaction("cancelled") as tx:
                await tx.publish("cancelled", b"never")
                await tx.flush()
                reached.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with q.transaction("cancelled") as tx:
            await tx.publish("cancelled", b"kept")
        assert await values(q, "cancelled") == [b"kept"]


async def test_tasks_with_transactions_of_their_own(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q:
        await q.topics.create("tasks", partitions=4)

        async def run(number: int) -> None:
            for turn in range(5):
                async with q.transaction(f"task {number}" if number % 2 else None) as tx:
                    await tx.send_many("tasks", [b"%d %d" % (number, turn)] * 10)

        await asyncio.gather(*map(run, range(8)))
        assert len(await values(q, "tasks")) == 400
        assert len(set(await values(q, "tasks"))) == 40


async def test_detached_and_fenced(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as q, quiver.connect_async(shared_broker.address) as other:
        await q.topics.create("handed-over")
        tx = await q.transactional().begin()
        await tx.publish("handed-over", b"1")
        key = await tx.detach()
        assert await other.commit_transactions([key], key="async/1")
        assert not await other.commit_transactions([key], key="async/1")
        with pytest.raises(ProducerFenced):
            await other.abort_transactions([key])
        producer = q.transactional("one")
        tx = await producer.begin()
        await other.transactional("one").init()
        await tx.publish("handed-over", b"zombie")
        with pytest.raises(ProducerFenced):
            await producer.commit()
        assert await values(q, "handed-over") == [b"1"]


def test_an_embedded_broker(tmp_path: Path):
    with quiver.open(str(tmp_path / "data")) as q:
        q.topics.create("orders")
        with q.transaction("id") as tx:
            tx.publish("orders", b"1")
    with quiver.open(str(tmp_path / "data")) as q:
        with q.transaction("id") as tx:
            tx.publish("orders", b"2")
        assert sorted(message.value for message in q.read("orders", end="latest")) == [b"1", b"2"]
