"""A cluster with many partitions: start-up, and how long until every partition acks again after a node was killed."""

import time
from concurrent.futures import ThreadPoolExecutor

import quiver
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.workloads.cluster.nodes import Nodes

TOPIC = "wide"
LONGEST_SECONDS = 300


def measure_many_partitions(run: Run, nodes: Nodes) -> None:
    count = run.scale.widest_partitions
    with run.measuring("quiver-cluster", "cluster", durability="fsync", detail=f"{count} partitions") as metrics:
        with quiver.connect(nodes.address, timeout=LONGEST_SECONDS) as client:
            begun = time.monotonic()
            client.topics.create(TOPIC, partitions=count)
            metrics["create_seconds"] = time.monotonic() - begun
        metrics["first_message_each_seconds"] = _publish_to_all(nodes, count)
        metrics["message_each_seconds"] = _publish_to_all(nodes, count)
        nodes.await_settled()
        for node in nodes.nodes.values():
            node.kill()
        begun = time.monotonic()
        with ThreadPoolExecutor() as threads:
            list(threads.map(Broker.start, nodes.nodes.values()))
        metrics["start_seconds"] = time.monotonic() - begun
        nodes.await_settled()
        killed = nodes.nodes[nodes.leader(TOPIC)]
        killed.kill()
        metrics["failover_seconds"] = _publish_to_all(nodes, count)
        killed.start()
        begun = time.monotonic()
        nodes.await_settled()
        metrics["settled_again_seconds"] = time.monotonic() - begun
    with quiver.connect(nodes.address, timeout=LONGEST_SECONDS) as client:
        client.topics.delete(TOPIC)


def _publish_to_all(nodes: Nodes, count: int) -> float:
    """Seconds until a message to each partition was acked."""
    with quiver.connect(nodes.address, timeout=LONGEST_SECONDS) as client:
        begun = time.monotonic()
        with client.producer(TOPIC, linger=0, delivery_timeout=LONGEST_SECONDS) as producer:
            for partition in range(count):
                producer.send(b"value", partition=partition)
            producer.flush()
        return time.monotonic() - begun
