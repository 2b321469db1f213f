"""What comes and goes leaves nothing in the memory of a broker: clients, topics, groups, leases, delays, queues."""

import asyncio
import gc
import http.client
import json
import multiprocessing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import quiver
from quiver.app.addresses import Addresses
from quiver.app.config import Config
from quiver.app.serve import Server
from unit.live_objects import grown, live_objects

WARM_UP, ROUNDS = 8, 40
FEW_ROUNDS, LITTLE = 10, 100
MESSAGES = 10
REJECTED = 2
REMEMBERED = {
    "quiver.coordination.port.Change": "the last changes, for watchers that are a little behind",
    "quiver.gateways.queen.acks.leased_messages.LeasedBatch": "what was settled, for acks that are sent again",
    "quiver.gateways.queen.identifiers.PartitionKey": "the ids of partitions of queues",
    "quiver.log.segment.index.IndexEntry": "of journals, until some are written at once",
    "quiver.model.names.TopicPartition": "deadlines that were replaced, some for each worker",
    "quiver.transactions.producer.LastEnd": "producers of transactions, for a day",
    "quiver.transactions.producer.Producer": "producers of transactions, for a day",
}
"""Kept for a while on purpose, up to a limit."""


def _round(addresses: Addresses, name: str) -> None:
    """In another process: what clients need is not counted."""
    with quiver.connect(f"127.0.0.1:{addresses.native_port}") as client:
        client.topics.create(name, partitions=2)
        _messages(client, name)
        with client.transaction() as committed:
            committed.publish(name, b"committed")
        for topic in (name, f"{name}.dlq"):
            client.topics.delete(topic)
        for group in client.groups.list():
            client.groups.delete(group.id)
    _queue(addresses.http_port, f"{name}-queue")


def _messages(client: quiver.Client, name: str) -> None:
    with client.producer(name) as producer:
        producer.send_many([b"x" * 100] * MESSAGES, keys=[b"%d" % key for key in range(MESSAGES)])
    later = client.publish(name, b"later", delay="365d")
    client.delayed.cancel(name, later.partition, later.offset)
    client.publish(name, b"still later", delay="365d")
    with client.stream(name, group="stream") as stream:
        for count, _ in enumerate(stream, 1):
            if count == MESSAGES:
                break
    with client.work(name, group="work") as jobs:
        for count, job in enumerate(jobs, 1):
            if count <= REJECTED:
                job.reject("no")
            else:
                job.ack()
            if count == MESSAGES:
                break


def _queue(port: int, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def call(method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body)
        connection.request(method, f"/api/v1{path}", content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 300, answer
        return json.loads(answer) if answer else None

    call("POST", "/configure", {"queue": name})
    items = [{"queue": name, "partition": str(number), "payload": number} for number in range(MESSAGES)]
    call("POST", "/push", {"items": items})
    messages = call("GET", f"/pop/queue/{name}?batch={MESSAGES}&partitions={MESSAGES}&wait=true")["messages"]
    call("POST", "/ack/batch", {"acknowledgments": messages})
    call("DELETE", f"/resources/queues/{name}")
    connection.close()


Rounds = Callable[[str, int], Awaitable[None]]
"""A number of rounds, with names of their own."""


@pytest.fixture(scope="module")
def clients() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as clients:
        yield clients


@pytest.fixture(params=["local", "postgres"])
async def rounds(
    request: pytest.FixtureRequest, tmp_path: Path, clients: ProcessPoolExecutor
) -> AsyncIterator[Rounds]:
    storage = request.getfixturevalue("database") if request.param == "postgres" else None
    config = Config(data_dir=tmp_path, storage=storage, http_port=0, native_port=0, min_free_bytes=0)
    server, loop = Server(config), asyncio.get_running_loop()
    addresses = await server.start()

    async def run(name: str, count: int) -> None:
        for number in range(count):
            await loop.run_in_executor(clients, partial(_round, addresses, f"{name}-{number}"))

    yield run
    await server.stop()


@pytest.mark.timeout(300)
async def test_rounds_leave_nothing(rounds: Rounds) -> None:
    await rounds("warm-up", WARM_UP)
    before = live_objects()
    await rounds("churn", ROUNDS)
    left = grown(before, live_objects(), ROUNDS * 3 // 4)
    assert not left.keys() - REMEMBERED.keys(), left


@pytest.mark.timeout(300)
async def test_rounds_leave_little_to_the_garbage_collector(rounds: Rounds) -> None:
    """What it has set aside is freed only when nothing refers to it."""
    await rounds("warm-up", WARM_UP)
    gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        await rounds("churn", FEW_ROUNDS)
        assert gc.collect() < FEW_ROUNDS * LITTLE
    finally:
        gc.enable()
