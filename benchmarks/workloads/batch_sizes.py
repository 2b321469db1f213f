"""How the rate depends on the batch: one producer, each batch sent at once and acknowledged before the next."""

import time

import quiver
from benchmarks.broker import Broker
from benchmarks.payload import payload
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run

MESSAGE_BYTES = 100
FULL_BATCHES, FULL_MESSAGES = 3_000, 3_000_000


def measure_batch_sizes(run: Run) -> None:
    with Broker(run.scratch / "batches") as broker:
        for _ in run.repetitions():
            for durability in ("fsync", "interval"):
                for batch in run.scale.batch_sizes:
                    _measure(run, broker, durability, batch)


def _measure(run: Run, broker: Broker, durability: str, batch: int) -> None:
    batches = max(20, int(min(FULL_BATCHES, FULL_MESSAGES // batch) * run.scale.share))
    topic = f"batches-{durability}"
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, durability=durability)
    try:
        with run.measuring(
            "quiver",
            "batches",
            size=MESSAGE_BYTES,
            durability=durability,
            detail=f"batches of {batch}",
            server_pids=[broker.pid],
        ) as metrics:
            outcome = run_roles({"produce": Role(_produce, (broker.address, topic, batch, batches))})["produce"]
            metrics["rate"] = batch * batches / outcome.seconds
            metrics |= latency_metrics("ack", outcome.result)
    finally:
        with quiver.connect(broker.address) as client:
            client.topics.delete(topic)


def _produce(address: str, topic: str, batch: int, batches: int, watch: Watch) -> list[float]:
    values, took = [payload(MESSAGE_BYTES)] * batch, []
    with quiver.connect(address) as client, client.producer(topic, linger=0) as producer:
        producer.send_many(values)
        producer.flush()
        watch.start()
        for _ in range(batches):
            begin = time.monotonic()
            producer.send_many(values)
            producer.flush()
            took.append(time.monotonic() - begin)
        watch.stop()
    return took
