"""5 producers and 20 consumers at once on 20 partitions: each consumer reads one partition to its end."""

import quiver
from benchmarks.payload import bodies
from benchmarks.quiver_subject import Durability
from benchmarks.roles import Role, Watch, run_roles, span
from benchmarks.run import Run
from benchmarks.servers.broker import Broker

DURABILITIES: tuple[Durability, ...] = ("fsync", "interval")

PRODUCERS, CONSUMERS = 5, 20
MESSAGE_BYTES, CHUNK = 100, 10_000
FULL_MESSAGES = 4_000_000
END = b"end"


def measure_fan(run: Run) -> None:
    with Broker(run.scratch / "fan") as broker:
        for _ in run.repetitions():
            for durability in DURABILITIES:
                _measure(run, broker, durability)


def _measure(run: Run, broker: Broker, durability: Durability) -> None:
    each = run.scale.count(FULL_MESSAGES) // PRODUCERS
    topic = f"fan-{durability}"
    with quiver.connect(broker.address) as client:
        client.topics.create(topic, partitions=CONSUMERS, durability=durability)
    roles = {f"produce {n}": Role(_produce, (broker.address, topic, each)) for n in range(PRODUCERS)}
    roles |= {f"consume {n}": Role(_consume, (broker.address, topic, n)) for n in range(CONSUMERS)}
    try:
        with run.measuring(
            "quiver",
            "fan",
            size=MESSAGE_BYTES,
            durability=durability,
            detail=f"{PRODUCERS} producers, {CONSUMERS} consumers",
            server_pids=[broker.pid],
        ) as metrics:
            outcomes = run_roles(roles)
            received = sum(outcomes[f"consume {n}"].result for n in range(CONSUMERS))
            if received != each * PRODUCERS:
                raise RuntimeError(f"{received} of {each * PRODUCERS} messages were received")
            metrics["rate"] = received / span(outcomes)
    finally:
        with quiver.connect(broker.address) as client:
            client.topics.delete(topic)


def _produce(address: str, topic: str, count: int, watch: Watch) -> None:
    """Ends with a mark in every partition, so that consumers know when they have it all."""
    values = bodies(MESSAGE_BYTES, CHUNK)
    with quiver.connect(address) as client, client.producer(topic) as producer:
        watch.start()
        for start in range(0, count, CHUNK):
            producer.send_many(values if count - start >= CHUNK else values[: count - start])
        producer.flush()
        for partition in range(CONSUMERS):
            producer.send(END, partition=partition)
        producer.flush()
        watch.stop()


def _consume(address: str, topic: str, partition: int, watch: Watch) -> int:
    import pyarrow
    import pyarrow.compute

    received, ends, mark = 0, 0, pyarrow.scalar(len(END), pyarrow.int32())
    with (
        quiver.connect(address) as client,
        client.read(topic, start="earliest", partitions=[partition]) as reader,
    ):
        watch.start()
        for batch in reader.batches():
            lengths = pyarrow.compute.binary_length(batch.column("value"))
            marks = pyarrow.compute.sum(pyarrow.compute.equal(lengths, mark)).as_py() or 0
            received += batch.num_rows - marks
            ends += marks
            if ends == PRODUCERS:
                break
        watch.stop()
    return received
