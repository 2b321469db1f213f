"""Nodes of two versions in one cluster: a common version of the protocol between nodes is spoken, if there is one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.cluster.replicated_nodes import NODES, SECONDS, Nodes, StartBroker
from blackbox.processes.broker_process import wait_until
from etcd_cluster import EtcdCluster, program, running_etcd

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")

FIRST, SECOND = ("--link-versions", "1"), ("--link-versions", "2")
NewNodes = Callable[[dict[int, tuple[str, ...]]], Nodes]


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with running_etcd() as cluster:
        yield cluster


@pytest.fixture
def new_nodes(
    request: pytest.FixtureRequest, etcd: EtcdCluster, tmp_path: Path, start_broker: StartBroker
) -> NewNodes:
    name = request.node.name.replace("_", "-")[:60]
    return lambda options: Nodes(name, etcd, tmp_path, start_broker, options)


def start_with(nodes: Nodes, number: int, options: tuple[str, ...]) -> None:
    """Stops a node, and starts it with other options; does not wait for it."""
    assert nodes.nodes[number].terminate() == 0
    nodes.nodes[number] = nodes.new(number, *options)


def test_an_older_node_takes_part_and_is_upgraded(new_nodes: NewNodes) -> None:
    nodes = new_nodes({3: FIRST})
    acked = 0
    with quiver.connect(nodes.address) as q:
        q.topics.create("orders", partitions=6)

        def publish(count: int) -> None:
            nonlocal acked
            with q.producer("orders", linger=0) as producer:
                for _ in range(count):
                    producer.send(b"%d" % acked, key=b"%d" % (acked % 17)).result()
                    acked += 1

        publish(40)
        nodes.await_all_in_sync(1)
        for killed in (1, 3):
            nodes.nodes[killed].kill()
            publish(40)
            nodes.nodes[killed].start(wait=False)
            nodes.nodes[killed].wait_ready(SECONDS)
            nodes.await_all_in_sync(killed)
        assert nodes.leaders(1) == {"1", "2", "3"} or wait_until(
            lambda: nodes.leaders(1) == {"1", "2", "3"}, SECONDS, "the older node leads its units again"
        )
        publish(40)
        start_with(nodes, 3, ())
        nodes.nodes[3].wait_ready(SECONDS)
        nodes.await_all_in_sync(3)
        publish(40)
        stored = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert stored == list(range(acked)), "each once"


def test_a_node_without_a_common_version_is_no_member(new_nodes: NewNodes) -> None:
    nodes = new_nodes(dict.fromkeys(NODES, FIRST))
    with quiver.connect(nodes.address) as q:
        q.topics.create("orders", partitions=6)
        q.publish("orders", b"before")
        nodes.await_all_in_sync(1)
        start_with(nodes, 3, SECOND)
        apart = nodes.nodes[3]
        apart.wait_ready(SECONDS, ready=False)
        status, report = apart.request("GET", "/readyz?verbose=true")
        assert status == 503, report
        assert "speaks version 1 of the protocol between nodes, this one speaks 2" in str(report)
        assert "speaks version 1 of the protocol between nodes, this one speaks 2" in apart.log_text
        members = {node["node"]: node["state"] for node in nodes.status(1)["nodes"]}
        assert members["1"] == members["2"] == "alive"
        assert members["3"] == "dead"
        q.publish("orders", b"without it")
        # the others are upgraded, one by one, over a version that both ends have
        start_with(nodes, 1, ())
        nodes.nodes[1].wait_ready(SECONDS)
        wait_until(lambda: "1" in nodes.status(2)["workers"][0]["isr"], SECONDS, "node 1 is in sync")
        q.publish("orders", b"with one")
        start_with(nodes, 2, ())
        for node in nodes.nodes.values():
            node.wait_ready(SECONDS)
        nodes.await_all_in_sync(3)
        values = {message.value for message in q.read("orders", start="earliest", end="latest")}
    assert values == {b"before", b"without it", b"with one"}
