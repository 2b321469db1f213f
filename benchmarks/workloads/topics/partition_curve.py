"""Rate and memory as the number of partitions grows: keyed messages over all partitions of one topic."""

import time

import quiver
from benchmarks.payload import bodies
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.server import resident_bytes

TOPIC = "partitions"
MESSAGE_BYTES, CHUNK = 100, 100_000
FULL_MESSAGES, FULL_MESSAGES_OF_MANY = 2_000_000, 300_000
MANY = 1_000
"""With more partitions than this there are fewer messages a frame, and fewer in all."""
KEYS = 100_000


def measure_partition_curve(run: Run) -> None:
    for partitions in run.scale.partition_counts:
        broker = Broker(run.scratch / f"partitions-{partitions}").start()
        try:
            broker.warm()
            _measure(run, broker, partitions)
        finally:
            broker.discard()


def _measure(run: Run, broker: Broker, partitions: int) -> None:
    detail = f"{partitions} partitions"
    begin = time.monotonic()
    with quiver.connect(broker.address) as client:
        client.topics.create(TOPIC, partitions=partitions, durability="interval")
    created = time.monotonic() - begin
    for _ in run.repetitions() if partitions <= MANY else range(1):
        with run.measuring(
            "quiver",
            "partition-curve",
            size=MESSAGE_BYTES,
            durability="interval",
            detail=detail,
            server_pids=[broker.pid],
        ) as metrics:
            count = run.scale.count(FULL_MESSAGES if partitions <= MANY else FULL_MESSAGES_OF_MANY)
            outcome = run_roles({"produce": Role(_produce, (broker.address, count))}, timeout=180)["produce"]
            metrics["rate"] = count / outcome.seconds
            metrics["resident_mb"] = resident_bytes(broker.pid) / 1e6
    broker.stop()
    with run.measuring("quiver", "partition-curve start", durability="interval", detail=detail) as metrics:
        broker.start()
        metrics["ready_s"] = broker.start_seconds
        metrics["resident_mb"] = resident_bytes(broker.pid) / 1e6
        metrics["create_s"] = created


def _produce(address: str, count: int, watch: Watch) -> None:
    keys = [f"key-{number}".encode() for number in range(KEYS)]
    values = bodies(MESSAGE_BYTES, CHUNK)
    with quiver.connect(address) as client, client.producer(TOPIC) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            few = min(CHUNK, count - start)
            producer.send_many(values[:few], keys=keys[:few])
        producer.flush()
        watch.stop()
