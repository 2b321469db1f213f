"""How long a client waits for its next ack when the leader of its partition is killed, or stopped."""

import os
import signal
import time

import quiver
from benchmarks.percentiles import latency_metrics
from benchmarks.roles import Role, Watch, run_roles
from benchmarks.run import Run
from benchmarks.workloads.cluster.nodes import Nodes

FULL_KILLS = 20
BEFORE_SECONDS, AFTER_SECONDS = 0.5, 5.0
KINDS = {"kill -9 of a leader": signal.SIGKILL, "SIGTERM to a leader": signal.SIGTERM}


def measure_pauses(run: Run, nodes: Nodes) -> None:
    topic = "pauses"
    with quiver.connect(nodes.address) as client:
        client.topics.create(topic, partitions=1)
    for kind, number in KINDS.items():
        times = max(1, round(FULL_KILLS * run.scale.share))
        with run.measuring("quiver-cluster", "cluster", durability="fsync", detail=kind) as metrics:
            metrics["times"] = times
            metrics |= latency_metrics("pause", [_pause(nodes, topic, number) for _ in range(times)])


def _pause(nodes: Nodes, topic: str, number: int) -> float:
    """The longest that a publish took around the signal; the node is started again afterwards."""
    leader = nodes.nodes[nodes.leader(topic)]
    roles = {"publish": Role(_publish, (nodes.address, topic)), "signal": Role(_signal, (leader.pid, number))}
    longest = run_roles(roles)["publish"].result
    leader.stop()
    leader.start()
    nodes.await_settled()
    return float(longest)


def _publish(address: str, topic: str, watch: Watch) -> float:
    longest = 0.0
    with quiver.connect(address) as client:
        client.publish(topic, b"first")
        watch.start()
        end = time.monotonic() + BEFORE_SECONDS + AFTER_SECONDS
        while (begun := time.monotonic()) < end:
            client.publish(topic, b"value")
            longest = max(longest, time.monotonic() - begun)
        watch.stop()
    return longest


def _signal(pid: int, number: int, watch: Watch) -> None:
    watch.start()
    time.sleep(BEFORE_SECONDS)
    os.kill(pid, number)
    watch.stop()
