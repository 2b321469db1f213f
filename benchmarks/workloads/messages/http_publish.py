"""Single publishes over HTTP: 32 connections, each waits for its answer before the next request."""

import asyncio
import time
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import quiver
from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds

CONNECTIONS = 32
MESSAGE_BYTES = 100
FULL_REQUESTS = 30_000
TOPIC = "http"


def measure_http_publish(run: Run) -> None:
    for durability in ("fsync", "interval"):
        with Broker(run.scratch / f"http-{durability}") as broker:
            with quiver.connect(broker.address) as client:
                client.topics.create(TOPIC, durability=durability)
            for _ in run.repetitions():
                _measure(run, broker, durability)


def _measure(run: Run, broker: Broker, durability: str) -> None:
    count = run.scale.count(FULL_REQUESTS)
    with run.measuring(
        "quiver",
        "http",
        size=MESSAGE_BYTES,
        durability=durability,
        detail=f"{CONNECTIONS} connections",
        server_pids=[broker.pid],
    ) as metrics:
        before = cpu_seconds([broker.pid])
        outcome = run_roles({"publish": Role(_publish, (broker.http_port, count))})["publish"]
        metrics["rate"] = len(outcome.result) / outcome.seconds
        metrics["broker_us_per_request"] = (cpu_seconds([broker.pid]) - before) / count * 1e6
        metrics |= latency_metrics("ack", outcome.result)


def _publish(port: int, count: int, watch: Watch) -> list[float]:
    import uvloop

    took: list[float] = uvloop.run(_load(port, count, watch))
    return took


async def _load(port: int, count: int, watch: Watch) -> list[float]:
    loop = asyncio.get_running_loop()
    load = Load(count, cycle([_request(body.hex()) for body in bodies(MESSAGE_BYTES // 2)]))
    connections = [
        (await loop.create_connection(lambda: Connection(load), HOST, port))[1] for _ in range(CONNECTIONS)
    ]
    watch.start()
    for connection in connections:
        connection.send_next()
    await load.done
    watch.stop()
    return load.took


def _request(value: str) -> bytes:
    body = f'{{"messages":[{{"value":"{value}"}}]}}'.encode()
    head = (
        f"POST /topics/{TOPIC}/messages HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Load:
    """The requests that are still to be sent, and how long the answered ones took."""

    def __init__(
        self, count: int, requests: Iterator[bytes], *, status: int = 200, sign: bytes = b'"offset"'
    ) -> None:
        """A good response has this status, and the sign in its body."""
        self.status, self.sign = status, sign
        self.requests = requests
        self.count = count
        self.left = count
        self.took: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answered(self, seconds: float) -> None:
        self.took.append(seconds)
        if len(self.took) == self.count and not self.done.done():
            self.done.set_result(None)

    def failed(self, problem: str) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError(problem))


class Connection(asyncio.Protocol):
    def __init__(self, load: Load) -> None:
        self._load = load
        self._body = b""

    def connection_made(self, transport: Any) -> None:
        import httptools

        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)

    def send_next(self) -> None:
        if self._load.left:
            self._load.left -= 1
            self._body = b""
            self._begin = time.monotonic()
            self._transport.write(next(self._load.requests))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        seconds = time.monotonic() - self._begin
        status = self._parser.get_status_code()
        if status != self._load.status or b'"error"' in self._body or self._load.sign not in self._body:
            self._load.failed(f"status {status}: {self._body[:500]!r}")
            return
        self._load.answered(seconds)
        self.send_next()

    def connection_lost(self, error: Exception | None) -> None:
        self._load.failed(f"the broker closed a connection ({error})")
