"""NATS JetStream with nats-py: a file stream, publishes whose acks are counted, push consumers.

nats-py's own `publish_async` spends most of its time on a future per message; acks that come to one shared inbox and
are counted are the fastest use of the client that we know.
"""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

from benchmarks.payload import Payload, age_seconds, stamped
from benchmarks.roles import Watch
from benchmarks.servers.presence import absence, find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, wait_for_port
from benchmarks.subject import Subject

STREAM, SUBJECT = "bench", "bench.messages"
WINDOW = 4_000


class Nats(Subject):
    name = "nats-jetstream"
    client = f"nats-py on uvloop; up to {WINDOW} publishes without ack, acks counted on one inbox; push consumer"
    durability = "file storage, synced every second (the server's default is every 2 minutes)"
    bulk_messages = 120_000
    both_messages = 100_000
    work_messages = 150_000

    def missing(self) -> str | None:
        return absence(program="nats-server", found=find_program("nats-server"), module="nats")

    def start(self, scratch: Path) -> None:
        directory = fresh_directory(scratch / self.name)
        self.port = free_port()
        config = directory / "nats.conf"
        config.write_text(
            f'listen: "{HOST}:{self.port}"\njetstream {{ store_dir: "{directory}/store", sync_interval: 1s }}\n'
        )
        server = spawn([str(find_program("nats-server")), "-c", str(config)], directory / "log")
        self._processes = [server]
        wait_for_port(self.port, server)
        self.version = _run(self._server_version())

    def reset(self) -> None:
        _run(self._reset())

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        _run(self._produce(count, payload, watch))

    def consume(self, count: int, watch: Watch) -> None:
        _run(self._consume(count, watch, None))

    def work(self, count: int, batch: int, watch: Watch) -> None:
        _run(self._consume(count, watch, None, ack_every=batch))

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        took: list[float] = _run(self._produce_paced(count, payload, rate, watch))
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        ages: list[float] = []
        _run(self._consume(count, watch, ages))
        return ages

    async def _connect(self) -> tuple[Any, Any]:
        import nats

        connection = await nats.connect(f"nats://{HOST}:{self.port}")
        return connection, connection.jetstream(timeout=30)

    async def _server_version(self) -> str:
        connection, _ = await self._connect()
        found = f"nats-server {connection.connected_server_version}".replace("<nats server v", "").rstrip(">")
        await connection.close()
        return found

    async def _reset(self) -> None:
        from nats.js import api, errors

        connection, stream = await self._connect()
        with contextlib.suppress(errors.NotFoundError):
            await stream.delete_stream(STREAM)
        await stream.add_stream(api.StreamConfig(name=STREAM, subjects=["bench.>"], storage=api.StorageType.FILE))
        await connection.close()

    async def _produce(self, count: int, payload: Payload, watch: Watch) -> None:
        connection, _ = await self._connect()
        bodies, inbox = payload.endless(count), connection.new_inbox()
        sent = acknowledged = 0
        room, done = asyncio.Event(), asyncio.Event()

        async def on_ack(message: Any) -> None:
            nonlocal acknowledged
            if b'"seq"' not in message.data:
                raise RuntimeError(f"not an ack: {message.data!r}")
            acknowledged += 1
            if sent - acknowledged <= WINDOW // 2:
                room.set()
            if acknowledged == count:
                done.set()

        await connection.subscribe(inbox, cb=on_ack, pending_msgs_limit=-1, pending_bytes_limit=-1)
        await connection.flush()
        watch.start()
        while sent < count:
            await connection.publish(SUBJECT, next(bodies), reply=inbox)
            sent += 1
            if sent - acknowledged >= WINDOW:
                room.clear()
                await room.wait()
        await done.wait()
        watch.stop()

    async def _consume(self, count: int, watch: Watch, ages: list[float] | None, *, ack_every: int = 1000) -> None:
        """Acknowledgements wait for nothing: the client does not ask for their answers."""
        from nats.js import api

        connection, stream = await self._connect()
        received, done = 0, asyncio.Event()

        async def on_message(message: Any) -> None:
            nonlocal received
            received += 1
            if ages is not None:
                ages.append(age_seconds(message.data))
            if received % ack_every == 0 or received == count or ages is not None:
                await message.ack()
            if received == count:
                done.set()

        kind = api.AckPolicy.ALL if ack_every > 1 else api.AckPolicy.EXPLICIT
        policy = api.ConsumerConfig(ack_policy=kind, max_ack_pending=20_000, ack_wait=60)
        watch.start()
        await stream.subscribe(
            "bench.>",
            stream=STREAM,
            cb=on_message,
            manual_ack=True,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
            config=policy,
        )
        await done.wait()
        await connection.flush()
        watch.stop()

    async def _produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        _, stream = await self._connect()
        bodies, took = payload.endless(count), []
        watch.start()
        due = time.monotonic()
        for _ in range(count):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            begin = time.monotonic()
            await stream.publish(SUBJECT, stamped(next(bodies)))
            took.append(time.monotonic() - begin)
            due = max(due + 1 / rate, time.monotonic() - 1 / rate)
        watch.stop()
        return took


def _run(work: Any) -> Any:
    import uvloop

    return uvloop.run(work)
