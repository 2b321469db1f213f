"""The asynchronous SDK: the source of the synchronous one, so only what differs in kind is tested again."""

import asyncio
import threading

import pytest

import quiver
from quiver.model.errors import ConnectionLost, RequestTimeout
from quiver.protocol.messages import Produce
from unit.client.fake_native_broker import FakeBroker


@pytest.fixture
def broker():
    with FakeBroker(orders=3, single=1) as fake:
        yield fake


async def test_the_same_verbs_awaited(broker):
    async with quiver.connect_async(broker.address) as q:
        assert await q.topics.list() == ["orders", "single"]
        assert (await q.publish("single", b"0")).offset == 0
        async with q.producer("single", batch_messages=7) as out:
            futures = [await out.send(b"%d" % n) for n in range(1, 100)]
            bulk = await out.send_many([b"x"] * 10)
            assert [(await future.result(10)).offset for future in futures] == list(range(1, 100))
            assert sum(span.message_count for span in await bulk.result(10)) == 10
        messages = [message async for message in q.read("single", end="latest")]
        assert [message.offset for message in messages] == list(range(110))
        batches = [batch async for batch in q.read("single", start=100, end=105).batches()]
        assert [n for batch in batches for n in batch["offset"].to_pylist()] == list(range(100, 105))
        assert await q.offsets("single") == {0: 110}


async def test_tasks_publish_at_once(broker):
    async with quiver.connect_async(broker.address) as q:
        places = await asyncio.gather(*(q.publish("single", b"%d" % n) for n in range(200)))
    assert sorted(place.offset for place in places) == list(range(200))


async def test_lost_connections_double_nothing(broker):
    left = [4]

    def fault(request):
        if isinstance(request, Produce) and left[0]:
            left[0] -= 1
            return "drop after" if left[0] % 2 else "drop"
        return None

    broker.fault = fault
    async with quiver.connect_async(broker.address) as q, q.producer("single", batch_messages=20) as out:
        for n in range(500):
            await out.send(b"%d" % n)
    assert broker.topics["single"].values() == [b"%d" % n for n in range(500)]


async def test_a_cancelled_call_leaves_the_client_usable(broker):
    broker.fault = lambda request: "ignore" if isinstance(request, Produce) else None
    async with quiver.connect_async(broker.address) as q:
        task = asyncio.create_task(q.publish("single", b"lost"))
        while not broker.requests_of(Produce):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RequestTimeout):
            await q.publish("single", b"late", timeout=0.05)
        broker.fault = lambda request: None
        broker.disconnect()
        assert (await q.publish("single", b"fine")).offset == 2
    assert broker.topics["single"].values() == [b"lost", b"late", b"fine"]


async def test_callbacks_run_on_the_loop(broker):
    heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    async with quiver.connect_async(broker.address) as q, q.producer("single") as out:
        (await out.send(b"a")).add_done_callback(lambda future: heard.set_result(threading.get_ident()))
        async with asyncio.timeout(10):
            assert await heard == threading.get_ident()


async def test_nobody_there():
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        async with quiver.connect_async("127.0.0.1:1"):
            pass


async def test_a_follower_is_woken_by_new_messages(broker):
    async with quiver.connect_async(broker.address) as q:
        got: list[bytes | None] = []

        async def follow() -> None:
            async for message in q.read("single", max_wait=0.01):
                got.append(message.value)
                if len(got) == 20:
                    return

        follower = asyncio.create_task(follow())
        for n in range(20):
            await q.publish("single", b"%d" % n)
            if n == 10:
                broker.disconnect()
        async with asyncio.timeout(20):
            await follower
    assert got == [b"%d" % n for n in range(20)]
