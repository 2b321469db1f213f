"""Queen's interface: the classic drain over HTTP, single pushes, and queues with very many partitions.

The drain is that of Queen's own plans: 100,000 messages wait in 10 partitions, and 10 consumers pop and acknowledge
them, 10,000 at a time, each message by name.
"""

import asyncio
import http.client
from itertools import cycle
from typing import Any

import msgspec

from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds, resident_bytes
from benchmarks.workloads.messages.http_publish import CONNECTIONS, Connection, Load

PARTITIONS, CONSUMERS, BATCH = 10, 10, 10_000
FULL_MESSAGES = 100_000
FULL_PUSHES = 30_000
PARTITION_COUNTS = (1, 100, 100_000)
SIZE = 100
PUSHED_AT_ONCE = 1_000


def measure_queen(run: Run) -> None:
    with Broker(run.scratch / "queen") as broker:
        for number in run.repetitions():
            _measure_drain(run, broker, f"drain-{number}")
            _measure_pushes(run, broker)
    for partitions in PARTITION_COUNTS:
        with Broker(run.scratch / f"queen-{partitions}") as broker:
            _measure_partitions(run, broker, partitions)


class Caller:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=600)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else msgspec.json.encode(body)
        self._connection.request(method, f"/api/v1{path}", content, {"content-type": "application/json"})
        response = self._connection.getresponse()
        answer = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {answer[:500]!r}")
        return answer

    def push(self, queue: str, partitions: list[str]) -> None:
        """A message for each."""
        for at in range(0, len(partitions), PUSHED_AT_ONCE):
            part = partitions[at : at + PUSHED_AT_ONCE]
            values = bodies(SIZE // 2, len(part))
            items = [
                {"queue": queue, "partition": name, "payload": value.hex(), "transactionId": f"{at + place:032x}"}
                for place, (name, value) in enumerate(zip(part, values, strict=True))
            ]
            self.call("POST", "/push", {"items": items})

    def drain(self, queue: str, count: int, *, partitions: int = 1) -> int:
        """Pops and acknowledges so many messages, which are there."""
        done = 0
        while done < count:
            answer = self.call("GET", f"/pop/queue/{queue}?batch={BATCH}&partitions={partitions}&wait=true")
            if answer:
                messages = _answer(answer).messages
                self.call("POST", "/ack/batch", {"acknowledgments": messages})
                done += len(messages)
        return done

    def close(self) -> None:
        self._connection.close()


class _Popped(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str
    lease_id: str


class _Answer(msgspec.Struct):
    messages: list[_Popped]


_answer = msgspec.json.Decoder(_Answer).decode


def _measure_drain(run: Run, broker: Broker, queue: str) -> None:
    count = run.scale.count(FULL_MESSAGES)
    caller = Caller(broker.http_port)
    for number in range(PARTITIONS):
        caller.push(queue, [f"partition-{number}"] * (count // PARTITIONS))
    with run.measuring(
        "quiver",
        "queen",
        size=SIZE,
        durability="fsync",
        detail=f"drain, {CONSUMERS} consumers, {PARTITIONS} partitions, {count} messages",
        server_pids=[broker.pid],
    ) as metrics:
        before = cpu_seconds([broker.pid])
        role = Role(_drain, (broker.http_port, queue))
        outcomes = run_roles({f"drain {number}": role for number in range(CONSUMERS)})
        metrics["rate"] = count / span(outcomes)
        metrics["broker_us_per_message"] = (cpu_seconds([broker.pid]) - before) / count * 1e6
    received = sum(outcome.result for outcome in outcomes.values())
    if received != count or Caller(broker.http_port).call("GET", f"/pop/queue/{queue}"):
        raise RuntimeError(f"{received} of {count} messages were popped")


def _drain(port: int, queue: str, watch: Watch) -> int:
    caller, own = Caller(port), 0
    watch.start()
    while answer := caller.call("GET", f"/pop/queue/{queue}?batch={BATCH}"):
        messages = _answer(answer).messages
        caller.call("POST", "/ack/batch", {"acknowledgments": messages})
        own += len(messages)
    watch.stop()
    return own


def _measure_pushes(run: Run, broker: Broker) -> None:
    count = run.scale.count(FULL_PUSHES)
    with run.measuring(
        "quiver",
        "queen",
        size=SIZE,
        durability="fsync",
        detail=f"single pushes, {CONNECTIONS} connections",
        server_pids=[broker.pid],
    ) as metrics:
        before = cpu_seconds([broker.pid])
        outcome = run_roles({"push": Role(_push, (broker.http_port, count))})["push"]
        metrics["rate"] = len(outcome.result) / outcome.seconds
        metrics["broker_us_per_request"] = (cpu_seconds([broker.pid]) - before) / count * 1e6
        metrics |= latency_metrics("ack", outcome.result)


def _push(port: int, count: int, watch: Watch) -> list[float]:
    import uvloop

    took: list[float] = uvloop.run(_load(port, count, watch))
    return took


async def _load(port: int, count: int, watch: Watch) -> list[float]:
    loop = asyncio.get_running_loop()
    load = Load(count, cycle([_request(body.hex()) for body in bodies(SIZE // 2)]), status=201, sign=b'"queued"')
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
    body = f'{{"items":[{{"queue":"single","payload":"{value}"}}]}}'.encode()
    head = (
        f"POST /api/v1/push HTTP/1.1\r\nHost: {HOST}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _measure_partitions(run: Run, broker: Broker, partitions: int) -> None:
    """As many messages as there are partitions at most, so that each has one; they are popped, and none is left."""
    count = run.scale.count(FULL_MESSAGES)
    queue, caller = "wide", Caller(broker.http_port)
    caller.push(queue, ["first"])
    before = resident_bytes(broker.pid)
    with run.measuring(
        "quiver",
        "queen",
        size=SIZE,
        durability="fsync",
        detail=f"{partitions} partitions",
        server_pids=[broker.pid],
    ) as metrics:
        cpu = cpu_seconds([broker.pid])
        caller.push(queue, [f"partition-{number % partitions}" for number in range(count)])
        metrics["push_us_per_message"] = (cpu_seconds([broker.pid]) - cpu) / count * 1e6
        cpu, popped = cpu_seconds([broker.pid]), 0
        while answer := caller.call("GET", f"/pop/queue/{queue}?batch={BATCH}&partitions=1000&autoAck=true"):
            popped += len(_answer(answer).messages)
        metrics["pop_us_per_message"] = (cpu_seconds([broker.pid]) - cpu) / count * 1e6
        metrics["growth_mb"] = (resident_bytes(broker.pid) - before) / 1e6
    if popped != count + 1:
        raise RuntimeError(f"{popped} of {count + 1} messages were popped")
