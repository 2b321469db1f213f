"""A replicated cluster of three nodes beside one node: what replicas cost, and what a failure does."""

import time
from collections.abc import Callable

import quiver
from benchmarks.comparison import bulk, latency
from benchmarks.quiver_subject import QuiverSubject
from benchmarks.roles import Role
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.etcd import EtcdServers
from benchmarks.servers.server import cpu_seconds, resident_bytes
from benchmarks.workloads.cluster.catch_up import measure_catch_up
from benchmarks.workloads.cluster.many_partitions import measure_many_partitions
from benchmarks.workloads.cluster.nodes import Nodes
from benchmarks.workloads.cluster.pauses import measure_pauses

PARTITIONS = 6
FULL_MESSAGES = 4_000_000
IDLE_PARTITIONS = 1_000
IDLE_SECONDS = 10.0


def measure_cluster(run: Run) -> None:
    def measure(nodes: Nodes, _: EtcdServers) -> None:
        with Broker(run.scratch / "one-node") as one:
            _compare(run, nodes, one)
        _idle(run, nodes)
        measure_catch_up(run, nodes)

    _with_nodes(run, measure)


def measure_cluster_failover(run: Run) -> None:
    def measure(nodes: Nodes, etcd: EtcdServers) -> None:
        _create_idle(nodes)
        measure_pauses(run, nodes, etcd)

    _with_nodes(run, measure)


def measure_cluster_partitions(run: Run) -> None:
    _with_nodes(run, lambda nodes, _: measure_many_partitions(run, nodes))


def _with_nodes(run: Run, measure: Callable[[Nodes, EtcdServers], None]) -> None:
    if (reason := EtcdServers.missing()) is not None:
        run.skip("cluster", reason)
        return
    etcd = EtcdServers(run.scratch / "etcd")
    etcd.start()
    nodes = Nodes(run.scratch, etcd.addresses)
    try:
        nodes.start()
        measure(nodes, etcd)
    finally:
        nodes.discard()
        etcd.stop()


def _compare(run: Run, nodes: Nodes, one: Broker) -> None:
    payload, count = run.scale.payloads[0], run.scale.count(FULL_MESSAGES)
    brokers: dict[str, Nodes | Broker] = {"quiver-cluster": nodes, "quiver": one}
    subjects = [
        QuiverSubject(name, broker, durability="fsync", publish_with="send_many", read_with="batches")
        for name, broker in brokers.items()
    ]
    detail = f"{PARTITIONS} partitions"
    for _ in run.repetitions():
        for subject in subjects:
            subject.reset_wide(PARTITIONS)
            bulk(run, subject, "cluster publish", payload, Role(subject.produce, (count, payload)), count, detail)
            bulk(run, subject, "cluster consume", payload, Role(subject.consume, (count,)), count, detail)
        latency(run, subjects[0], payload)
    for subject in subjects:
        subject.stop()


def _idle(run: Run, nodes: Nodes) -> None:
    _create_idle(nodes)
    detail = f"idle, {IDLE_PARTITIONS} partitions"
    with run.measuring("quiver-cluster", "cluster", durability="", detail=detail) as metrics:
        before = cpu_seconds(nodes.pids)
        time.sleep(IDLE_SECONDS)
        used = cpu_seconds(nodes.pids) - before
        metrics["core_percent_per_node"] = used / IDLE_SECONDS / len(nodes.pids) * 100
        metrics["node_mb"] = max(resident_bytes(pid) for pid in nodes.pids) / 1e6


def _create_idle(nodes: Nodes) -> None:
    with quiver.connect(nodes.address) as client:
        client.topics.create("idle", partitions=IDLE_PARTITIONS)
        time.sleep(IDLE_SECONDS)  # what creating them leaves to do
