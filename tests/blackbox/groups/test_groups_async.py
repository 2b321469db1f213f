"""The asynchronous stream: what differs from the synchronous one is waiting."""

import asyncio
import uuid

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from quiver.model.errors import MemberFenced


@pytest.fixture
async def q(shared_broker: BrokerProcess):
    async with quiver.connect_async(shared_broker.address) as client:
        yield client


@pytest.fixture
async def topic(q) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await q.topics.create(name, partitions=2, durability="interval")
    return name


async def fill(q, topic: str, count: int, partition: int | None = None) -> None:
    async with q.producer(topic) as out:
        for n in range(count):
            await out.send(b"%d" % n, partition=n % 2 if partition is None else partition)


async def take(stream, wanted: int) -> list:
    found = []
    async for message in stream:
        found.append(message)
        if len(found) == wanted:
            return found
    return found


async def until(check) -> None:
    await asyncio.to_thread(wait_until, check, 30, "what the test waits for")


async def test_messages_batches_and_commits(q, topic):
    group = f"g-{topic}"
    await fill(q, topic, 100, partition=0)
    async with q.stream(topic, group=group) as stream:
        assert [int(m.value) for m in await take(stream, 40)] == list(range(40))
    async with q.stream(topic, group=group, auto_commit=False) as stream:
        async for batch in stream.batches():
            assert batch["offset"].to_pylist()[0] == 40
            break
        await stream.commit()
    described = await q.groups.describe(group)
    assert described.partitions[0].committed > 40
    await q.groups.reset(group, topic, 90)
    async with q.stream(topic, group=group, auto_commit=False) as stream:
        messages = await take(stream, 5)
        await messages[2].commit()
    assert (await q.groups.describe(group)).partitions[0].committed == 93
    await q.groups.delete(group)


async def test_members_share_and_are_told_by_callbacks_that_may_wait(shared_broker, q, topic):
    told, read = [], {1: [], 2: []}

    async def slowly(what, partitions) -> None:
        await asyncio.sleep(0)
        told.append((what, [number for _, number in partitions]))

    async def follow(stream, number: int) -> None:
        async for message in stream:
            read[number].append(message.value)

    first = await q.stream(
        topic,
        group=f"g-{topic}",
        on_assign=lambda parts: slowly("assign", parts),
        on_revoke=lambda parts: slowly("revoke", parts),
    ).open()
    tasks = [asyncio.create_task(follow(first, 1))]
    await until(lambda: told == [("assign", [0, 1])])
    second = await q.stream(topic, group=f"g-{topic}").open()
    tasks.append(asyncio.create_task(follow(second, 2)))
    await until(lambda: len(second.assignment) == 1)
    await fill(q, topic, 20)
    await until(lambda: len(read[1]) + len(read[2]) == 20)
    assert len(read[1]) == len(read[2]) == 10
    await second.close()
    await until(lambda: len(first.assignment) == 2)
    await first.close()
    await asyncio.gather(*tasks)
    assert [what for what, _ in told] == ["assign", "revoke", "assign", "revoke"]
    assert told[-1] == ("revoke", [0, 1])


async def test_a_handler_that_waits_long_keeps_its_partitions(q, topic):
    await fill(q, topic, 2)
    group = f"g-{topic}"
    async with q.stream(topic, group=group, session_timeout="1500ms") as stream:
        await take(stream, 1)
        beat = (await q.groups.describe(group)).members[0].last_heartbeat_ms
        async with asyncio.timeout(30):
            while (await q.groups.describe(group)).members[0].last_heartbeat_ms < beat + 2000:
                pass
        assert len(await take(stream, 1)) == 1


async def test_pause_resume_and_seek(q, topic):
    await fill(q, topic, 50, partition=0)
    async with q.stream(topic, group=f"g-{topic}") as stream:
        await take(stream, 5)
        stream.pause(topic, 0)
        await q.publish(topic, b"other", partition=1)
        assert [m.value for m in await take(stream, 1)] == [b"other"]
        stream.resume(topic, 0)
        assert [m.offset for m in await take(stream, 2)] == [5, 6]
        stream.seek(topic, 0, 40)
        assert [m.offset for m in await take(stream, 2)] == [40, 41]


async def test_a_replaced_instance_is_told(q, topic):
    lost = []
    first = await q.stream(topic, group=f"g-{topic}", instance_id="box", on_lost=lost.extend).open()
    reading = asyncio.create_task(take(first, 1))
    await until(lambda: len(first.assignment) == 2)
    async with q.stream(topic, group=f"g-{topic}", instance_id="box"):
        with pytest.raises(MemberFenced):
            await asyncio.wait_for(reading, 30)
    assert lost == [(topic, 0), (topic, 1)]


async def test_a_cancelled_reader_counts_its_message_as_not_processed(q, topic):
    await fill(q, topic, 10, partition=0)
    group, at_hand = f"g-{topic}", asyncio.Event()

    async def work() -> None:
        async with q.stream(topic, group=group) as stream:
            async for message in stream:
                if message.offset == 3:
                    at_hand.set()
                    await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.wait_for(at_hand.wait(), 30)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await q.groups.describe(group)).partitions[0].committed == 3
