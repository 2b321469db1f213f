"""How long a client waits for its next ack when the leader of its partition is killed, or stopped."""

import signal

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.run import Run
from benchmarks.servers.etcd import EtcdServers
from benchmarks.workloads.cluster.nodes import Nodes
from benchmarks.workloads.longest_publish import longest_publish

WITH_ETCD = "kill -9 of a leader and of etcd's"
KINDS = {
    "kill -9 of a leader": (signal.SIGKILL, 50),
    WITH_ETCD: (signal.SIGKILL, 20),
    "SIGTERM to a leader": (signal.SIGTERM, 20),
}
"""The signal, and how often it is sent."""


def measure_pauses(run: Run, nodes: Nodes, etcd: EtcdServers) -> None:
    topic = "pauses"
    with quiver.connect(nodes.address) as client:
        client.topics.create(topic, partitions=1)
    for kind, (number, full_times) in KINDS.items():
        times = max(1, round(full_times * run.scale.share))
        with run.measuring("quiver-cluster", "cluster", durability="fsync", detail=kind) as metrics:
            metrics["times"] = times
            with_etcd = etcd if kind == WITH_ETCD else None
            metrics |= latency_metrics("pause", [_pause(nodes, topic, number, with_etcd) for _ in range(times)])


def _pause(nodes: Nodes, topic: str, number: int, etcd: EtcdServers | None) -> float:
    """The longest that a publish took around the signal; what ended is started again afterwards."""
    leader = nodes.nodes[nodes.leader(topic)]
    member = None if etcd is None else etcd.leader()
    pids = [leader.pid] if member is None else [member.pid, leader.pid]
    longest = longest_publish(nodes.address, topic, pids, number)
    if etcd is not None and member is not None:
        member.stop()
        etcd.start_member(member)
        member.wait()
    leader.stop()
    leader.start()
    nodes.await_settled()
    return longest
