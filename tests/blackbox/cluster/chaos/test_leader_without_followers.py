"""A leader that reaches etcd and its clients, and none of its followers: they go on without it."""

from pathlib import Path

import pytest

import quiver
from blackbox.cluster.chaos.cluster_under_test import cluster_under_test
from blackbox.cluster.replicated_nodes import NODES, StartBroker
from etcd_cluster import program
from quiver.cluster.placement import Placement

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")

SECONDS = 60.0


def test_others_lead_instead(start_broker: StartBroker, tmp_path: Path) -> None:
    with cluster_under_test(tmp_path, start_broker) as cluster:
        cluster.await_whole()
        with quiver.connect(cluster.address, timeout=SECONDS) as q:
            q.topics.create("orders", partitions=1)
            q.publish("orders", b"before")
            units = cluster.units()
            leader = int(units[Placement(0, len(units)).partition_worker("orders", 0)]["node"])
            outgoing, incoming = cluster.between(leader)
            cluster.relays.cut([*outgoing, *incoming])
        others = [address for node, address in zip(NODES, cluster.address.split(","), strict=True) if node != leader]
        with quiver.connect(",".join(others), timeout=SECONDS) as q:
            q.publish("orders", b"while it is cut off")
            assert cluster.nodes[leader].running
            cluster.heal()
            q.publish("orders", b"after")
            cluster.await_whole()
            stored = [message.value for message in q.read("orders", start="earliest", end="latest")]
        assert stored == [b"before", b"while it is cut off", b"after"]
