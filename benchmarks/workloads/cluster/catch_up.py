"""A node that was away while much was written: how long until it has everything again."""

import time

import quiver
from benchmarks.payload import Payload
from benchmarks.run import Run
from benchmarks.workloads.cluster.nodes import Nodes

FULL_BYTES = 1_000_000_000
BODY_BYTES, CHUNK = 1_000, 1_000
PARTITIONS = 6
TOPIC = "away"


def measure_catch_up(run: Run, nodes: Nodes) -> None:
    away = nodes.nodes[3]
    with run.measuring("quiver-cluster", "cluster", durability="fsync", detail="a node that was away") as metrics:
        with quiver.connect(nodes.address) as client:
            client.topics.create(TOPIC, partitions=PARTITIONS)
            away.kill()
            metrics["gigabytes"] = _publish(client, run.scale.share * FULL_BYTES) / 1e9
        begun = time.monotonic()
        away.start()
        metrics["ready_seconds"] = time.monotonic() - begun
        nodes.await_settled()
        metrics["in_sync_seconds"] = time.monotonic() - begun
    with quiver.connect(nodes.address) as client:
        client.topics.delete(TOPIC)


def _publish(client: quiver.Client, size_bytes: float) -> int:
    """Returns how many bytes it were."""
    payload, sent = Payload(BODY_BYTES), 0
    with client.producer(TOPIC) as producer:
        for bodies in payload.chunks(max(CHUNK, int(size_bytes / BODY_BYTES)), CHUNK):
            producer.send_many(bodies)
            sent += len(bodies) * BODY_BYTES
        producer.flush()
    return sent
