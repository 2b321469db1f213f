"""What traces cost bulk publishing: the processor time of producer and broker per message, with and without."""

import time

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import cpu_seconds

SHARE = 0.01
FULL_MESSAGES = {"send_many": 4_000_000, "send": 1_000_000}
BATCH = 1_000
SETTLE_SECONDS = 1.5
"""Spans are written within a second."""


def measure_tracing(run: Run) -> None:
    with Broker(run.scratch / "tracing") as broker:
        with quiver.connect(broker.address) as client:
            client.topics.create("traced", partitions=1)
        for _ in run.repetitions():
            for way, full in FULL_MESSAGES.items():
                for share in (0.0, SHARE):
                    _measure(run, broker, way, run.scale.count(full), share)


def _measure(run: Run, broker: Broker, way: str, count: int, share: float) -> None:
    detail = f"{way}, {share:.0%} sampled"
    with run.measuring("quiver", "tracing", size=100, detail=detail, server_pids=[broker.pid]) as metrics:
        before = cpu_seconds([broker.pid])
        outcome = run_roles({"publish": Role(_publish, (broker.address, way, count, share))})["publish"]
        time.sleep(SETTLE_SECONDS)
        server = cpu_seconds([broker.pid]) - before
        metrics["us_per_message"] = (outcome.cpu_seconds + server) / count * 1e6
        metrics["client_us_per_message"] = outcome.cpu_seconds / count * 1e6
        metrics["rate"] = count / outcome.seconds
    with quiver.connect(broker.address) as client:
        client.topics.purge("traced")


def _publish(address: str, way: str, count: int, share: float, watch: Watch) -> None:
    pool = bodies(100, 10_000)
    with quiver.connect(address, tracing=share) as client, client.producer("traced") as producer:
        watch.start()
        if way == "send":
            for number in range(count):
                producer.send(pool[number % len(pool)])
        else:
            for start in range(0, count, BATCH):
                producer.send_many(pool[start % len(pool) :][:BATCH])
        producer.flush()
        watch.stop()
