"""How the rate depends on the batch: frames of a fixed number of messages, one after the other or many in flight."""

import time

import quiver
from benchmarks.payload import bodies
from benchmarks.percentiles import latency_metrics
from benchmarks.quiver_subject import Durability
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

DURABILITIES: tuple[Durability, ...] = ("fsync", "interval")

MESSAGE_BYTES = 100
FULL_BATCHES, FULL_MESSAGES = 2_000, 2_000_000
IN_FLIGHT_FACTOR = 4
"""With many in flight there are more of them, so that a run takes as long."""
CHUNK = 10_000


def measure_batch_sizes(run: Run) -> None:
    with Broker(run.scratch / "batches") as broker:
        for _ in run.repetitions():
            for durability in DURABILITIES:
                for batch in run.scale.batch_sizes:
                    _measure(run, broker, durability, batch, in_flight=False)
                    _measure(run, broker, durability, batch, in_flight=True)


def _measure(run: Run, broker: Broker, durability: Durability, batch: int, in_flight: bool) -> None:
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
            detail=f"batches of {batch}, " + ("many in flight" if in_flight else "one after the other"),
            server_pids=[broker.pid],
        ) as metrics:
            if in_flight:
                count = batch * batches * IN_FLIGHT_FACTOR
                outcome = run_roles({"produce": Role(_stream, (broker.address, topic, batch, count))})["produce"]
                metrics["rate"] = count / outcome.seconds
            else:
                outcome = run_roles({"produce": Role(_step, (broker.address, topic, batch, batches))})["produce"]
                metrics["rate"] = batch * batches / outcome.seconds
                metrics |= latency_metrics("ack", outcome.result)
    finally:
        with quiver.connect(broker.address) as client:
            client.topics.delete(topic)


def _step(address: str, topic: str, batch: int, batches: int, watch: Watch) -> list[float]:
    """Each batch is acknowledged before the next is sent; the seconds of each."""
    values, took = bodies(MESSAGE_BYTES, batch), []
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


def _stream(address: str, topic: str, batch: int, count: int, watch: Watch) -> None:
    """As many batches in flight as the producer allows."""
    values = bodies(MESSAGE_BYTES, CHUNK)
    with (
        quiver.connect(address) as client,
        client.producer(topic, batch_messages=batch, batch_bytes=4 << 20) as producer,
    ):
        watch.start()
        for start in range(0, count, CHUNK):
            producer.send_many(values if count - start >= CHUNK else values[: count - start])
        producer.flush()
        watch.stop()
