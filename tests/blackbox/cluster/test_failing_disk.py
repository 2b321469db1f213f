"""A node whose disk fails while it leads: others take over, nothing that was acked is lost."""

from pathlib import Path

import pytest

import quiver
from blackbox.cluster.replicated_nodes import SECONDS, Nodes, StartBroker
from blackbox.processes.broker_process import wait_until
from blackbox.processes.strace_faults import inject
from etcd_cluster import EtcdCluster, program

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")

PARTITIONS = 6
"""More than units, so that each node leads some."""


def test_others_take_over_from_a_node_whose_disk_fails(
    etcd: EtcdCluster, tmp_path: Path, start_broker: StartBroker
) -> None:
    nodes = Nodes("failing-disk", etcd, tmp_path, start_broker)
    failing, acked = nodes.nodes[1], 0
    with quiver.connect(nodes.address) as q:
        q.topics.create("orders", partitions=PARTITIONS)

        def publish() -> None:
            nonlocal acked
            with q.producer("orders", linger=0) as producer:
                for partition in range(PARTITIONS):
                    producer.send(b"%d" % acked, partition=partition).result()
                    acked += 1

        publish()
        nodes.await_all_in_sync(2)
        with inject(failing.pid, "error=EIO"):
            publish()
            wait_until(lambda: "1" not in nodes.leaders(2), SECONDS, "others lead what node 1 led")
        publish()
        assert "1" not in nodes.leaders(2), "also when its disk is well again"
        assert "leads nothing any more" in failing.log_text
        status, report = failing.request("GET", "/readyz?verbose=true")
        assert status == 503, report
        assert "offline for writes" in str(report)
        failing.kill()
        failing.start(wait=False)
        failing.wait_ready(SECONDS)
        nodes.await_all_in_sync(2)
        wait_until(lambda: "1" in nodes.leaders(2), SECONDS, "node 1 leads again")
        publish()
        stored = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert stored == list(range(acked)), "each once"
