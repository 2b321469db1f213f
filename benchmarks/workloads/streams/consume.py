"""Consuming through a group against reading without one: two processes, each with half of the partitions.

Members stay until all are done, so that no partition moves while the time runs.
"""

import multiprocessing
import time
from typing import Any, Literal

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

TOPIC = "group-consume"
PARTITIONS, CONSUMERS = 4, 2
MESSAGE_BYTES, CHUNK = 100, 10_000
FULL_MESSAGES = {"batches": 16_000_000, "messages": 8_000_000}

ALL_DONE_SECONDS = 100.0

ReadAs = Literal["batches", "messages"]


def measure_group_consume(run: Run) -> None:
    with Broker(run.scratch / "group-consume") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS, durability="interval")
        stored = run.scale.count(FULL_MESSAGES["batches"]) // PARTITIONS
        run_roles({"fill": Role(_fill, (broker.address, stored))})
        for number in run.repetitions():
            for read_as, full in FULL_MESSAGES.items():
                each = min(run.scale.count(full) // CONSUMERS, stored * PARTITIONS // CONSUMERS)
                readers = [Role(_read, (broker.address, n, each, read_as)) for n in range(CONSUMERS)]
                _measure(run, broker, f"{read_as}, without a group", each, readers)
                group = f"{read_as}-{number}"
                all_done = multiprocessing.get_context("spawn").Barrier(CONSUMERS)
                member = Role(_read_in_group, (broker.address, group, each, read_as, all_done))
                members = [member] * CONSUMERS
                _measure(run, broker, f"{read_as}, through a group", each, members)


def _measure(run: Run, broker: Broker, detail: str, each: int, roles: list[Role]) -> None:
    with run.measuring(
        "quiver",
        "group-consume",
        size=MESSAGE_BYTES,
        durability="interval",
        detail=f"{detail}, {CONSUMERS} consumers",
        server_pids=[broker.pid],
    ) as metrics:
        outcomes = run_roles({f"consume {n}": role for n, role in enumerate(roles)})
        metrics["rate"] = each * CONSUMERS / span(outcomes)
        cpu_seconds = sum(outcome.cpu_seconds for outcome in outcomes.values())
        metrics["client_cpu_ns_a_message"] = cpu_seconds / (each * CONSUMERS) * 1e9


def _fill(address: str, each: int, watch: Watch) -> None:
    """The same number of messages in every partition, in turns."""
    values = bodies(MESSAGE_BYTES, CHUNK)
    with quiver.connect(address) as client, client.producer(TOPIC) as producer:
        watch.start()
        for start in range(0, each, CHUNK):
            for partition in range(PARTITIONS):
                producer.send_many(values[: each - start], partition=partition)


def _read(address: str, number: int, count: int, read_as: ReadAs, watch: Watch) -> None:
    partitions = list(range(number, PARTITIONS, CONSUMERS))
    with quiver.connect(address) as client, client.read(TOPIC, partitions=partitions) as reader:
        watch.start()
        _receive(reader, count, read_as)
        watch.stop()


def _read_in_group(address: str, group: str, count: int, read_as: ReadAs, all_done: Any, watch: Watch) -> None:
    """Commits as it does by default, and once more at the end of the time."""
    with quiver.connect(address) as client, client.stream(TOPIC, group=group) as stream:
        while len(stream.assignment) != PARTITIONS // CONSUMERS:
            time.sleep(0.005)
        generation = stream.generation
        watch.start()
        _receive(stream, count, read_as)
        stream.commit()
        watch.stop()
        all_done.wait(ALL_DONE_SECONDS)
        if len(stream.assignment) != PARTITIONS // CONSUMERS or stream.generation != generation:
            raise RuntimeError("partitions moved while the time ran")
        all_done.wait(ALL_DONE_SECONDS)


def _receive(source: Any, count: int, read_as: ReadAs) -> None:
    received = 0
    if read_as == "batches":
        for batch in source.batches():
            received += batch.num_rows
            if received >= count:
                return
    for message in source:
        received += message.value is not None
        if received == count:
            return
