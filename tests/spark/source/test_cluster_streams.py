"""Streaming reads of a replicated cluster while a leader does not know that it was deposed."""

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import quiver
from blackbox.cluster.replicated_nodes import SECONDS, Nodes
from blackbox.processes.broker_process import BrokerProcess, wait_until
from etcd_cluster import program, running_etcd
from spark.source.test_spark_streams import Planned
from spark.topic_rows import new_topic, publish


@pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")
def test_a_leader_that_was_deposed_is_asked(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    """What it has ends before the position of the query: nothing counts as lost, and nothing is read twice."""
    with running_etcd() as etcd:
        cluster = Nodes("deposed", etcd, tmp_path, start_broker)
        topic = new_topic(cluster, partitions=1)
        publish(cluster, topic, 10)
        cluster.await_all_in_sync(1)
        deposed = cluster.nodes[cluster.leader(topic, 0, asked=1)]
        number, other = next((number, node) for number, node in cluster.nodes.items() if node is not deposed)
        resumed = Planned(deposed, topic=topic).begin()
        assert resumed.offsets() == list(range(10))
        deposed.send_signal(signal.SIGSTOP)
        wait_until(lambda: cluster.nodes[cluster.leader(topic, 0, asked=number)] is not deposed, SECONDS, "a leader")
        publish(other, topic, 10)
        query = Planned(other, topic=topic).begin()
        assert query.offsets() == list(range(20))

        resumed.at = query.at
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(resumed.offsets)  # its requests are there when the node goes on
            deposed.send_signal(signal.SIGCONT)
            assert reading.result(SECONDS) == []
        publish(other, topic, 5)
        with quiver.connect(deposed.address) as client:
            wait_until(lambda: client.topics.describe(topic).offsets[0][1] == 25, SECONDS, "it knows the new leader")
        assert resumed.offsets() == list(range(20, 25))
