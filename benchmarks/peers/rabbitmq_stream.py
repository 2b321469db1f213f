"""A RabbitMQ stream over the stream protocol with rstream."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks.payload import Payload, age_seconds, stamped
from benchmarks.peers.rabbitmq_server import RabbitServer
from benchmarks.roles import Watch
from benchmarks.servers.server import HOST

BATCH = 500
WINDOW = 8_000
STORE_EVERY = 1_000


class RabbitStream(RabbitServer):
    name = "rabbitmq-stream"
    client = f"rstream on uvloop; send_batch of {BATCH} with confirms, offset stored every {STORE_EVERY} messages"
    durability = "written to the page cache, not synced (default)"
    client_module = "rstream"
    bulk_messages = 300_000
    both_messages = 150_000

    def __init__(self) -> None:
        super().__init__()
        self.resets = 0

    @property
    def stream(self) -> str:
        return f"bench{self.resets}"

    def reset(self) -> None:
        _run(self._reset())

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        _run(self._produce(count, payload, watch))

    def consume(self, count: int, watch: Watch) -> None:
        _run(self._consume(count, watch, None))

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        took: list[float] = _run(self._produce_paced(count, payload, rate, watch))
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        ages: list[float] = []
        _run(self._consume(count, watch, lambda body: ages.append(age_seconds(body))))
        return ages

    def _producer(self) -> Any:
        import rstream

        return rstream.Producer(host=HOST, port=self.stream_port, username="guest", password="guest")

    async def _reset(self) -> None:
        async with self._producer() as producer:
            await producer.delete_stream(self.stream, missing_ok=True)
            self.resets += 1
            await producer.create_stream(self.stream)
            while not await producer.stream_exists(self.stream):
                await asyncio.sleep(0.05)

    async def _produce(self, count: int, payload: Payload, watch: Watch) -> None:
        batches, sent, confirmed = payload.chunks(count, BATCH), 0, 0
        room, done = asyncio.Event(), asyncio.Event()

        def on_confirm(status: Any) -> None:
            nonlocal confirmed
            if not status.is_confirmed:
                raise RuntimeError(f"not confirmed: {status}")
            confirmed += 1
            if sent - confirmed <= WINDOW // 2:
                room.set()
            if confirmed == count:
                done.set()

        async with self._producer() as producer:
            await producer.stream_exists(self.stream)
            watch.start()
            for batch in batches:
                sent += len(batch)
                await producer.send_batch(self.stream, batch, on_publish_confirm=on_confirm)
                await asyncio.sleep(0)
                if sent - confirmed > WINDOW:
                    room.clear()
                    await room.wait()
            await done.wait()
            watch.stop()

    async def _consume(self, count: int, watch: Watch, on_body: Callable[[bytes], None] | None) -> None:
        import rstream

        received, done = 0, asyncio.Event()
        consumer = rstream.Consumer(host=HOST, port=self.stream_port, username="guest", password="guest")
        await consumer.start()

        async def on_message(body: bytes, context: Any) -> None:
            nonlocal received
            received += 1
            if on_body is not None:
                on_body(body)
            if received % STORE_EVERY == 0 or received == count:
                await consumer.store_offset(self.stream, "bench", context.offset)
            if received == count:
                done.set()

        first = rstream.ConsumerOffsetSpecification(rstream.OffsetType.FIRST, None)
        watch.start()
        await consumer.subscribe(self.stream, on_message, decoder=None, initial_credit=50, offset_specification=first)
        await done.wait()
        watch.stop()

    async def _produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        pool, took = payload.endless(count), []
        async with self._producer() as producer:
            await producer.stream_exists(self.stream)
            watch.start()
            due = time.monotonic()
            for _ in range(count):
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                begin = time.monotonic()
                await producer.send_wait(self.stream, stamped(next(pool)))
                took.append(time.monotonic() - begin)
                due = max(due + 1 / rate, time.monotonic() - 1 / rate)
            watch.stop()
        return took


def _run(work: Any) -> Any:
    import uvloop

    return uvloop.run(work)
