"""The cluster's routes on a broker that is alone, with one worker and with several: it is the only node."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.cli_process import Cli


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data_dir = tmp_path_factory.mktemp("cluster") / "data"
    with BrokerProcess(data_dir, "--workers", str(request.param)) as process:
        for name, partitions in (("orders", 5), ("payments", 2)):
            assert process.request("POST", "/topics", {"name": name, "partitions": partitions})[0] == 201
        yield process


@pytest.fixture
def worker_count(broker: BrokerProcess) -> int:
    return int(broker.args[-1])


def get(broker: BrokerProcess, path: str, expected: int = 200) -> Any:
    status, document = broker.request("GET", path)
    assert status == expected, document
    return document


def test_a_broker_that_is_alone_is_the_only_node(broker: BrokerProcess, worker_count: int) -> None:
    document = get(broker, "/cluster")
    node, workers = document["node"], list(range(worker_count))
    assert node == document["node_id"] == document["controller"]
    assert [
        (each["node"], each["state"], each["workers"], each["leaders"], each["tags"]) for each in document["nodes"]
    ] == [(node, "alive", workers, workers, {})]
    assert [unit["unit"] for unit in document["units"]] == workers
    for unit in document["units"]:
        assert (unit["leader"], unit["replicas"], unit["isr"], unit["adding"]) == (node, [node], [node], [])
        assert unit["epoch"] > 0
    assert get(broker, "/cluster/nodes") == {"node": node, "nodes": document["nodes"]}
    assert node in Cli(broker.address)("cluster", "nodes").stdout.decode()


def test_the_unit_of_each_partition(broker: BrokerProcess, worker_count: int) -> None:
    document = get(broker, "/cluster?units=true")
    units = {unit["unit"]: unit for unit in document["units"]}
    found = get(broker, "/cluster/partitions?topic=orders")
    assert (found["count"], "next_cursor" in found) == (5, False)
    assert [(each["topic"], each["partition"]) for each in found["partitions"]] == [("orders", n) for n in range(5)]
    assert [each["unit"] for each in found["partitions"]] == document["topics"]["orders"]
    assert len({each["unit"] for each in found["partitions"]}) == worker_count
    for each in found["partitions"]:
        unit = units[each["unit"]]
        for field in ("leader", "epoch", "replicas", "isr"):
            assert each[field] == unit[field]


def test_partitions_page_by_page(broker: BrokerProcess) -> None:
    everything = get(broker, "/cluster/partitions")
    assert everything["count"] == len(everything["partitions"]) >= 7
    pages, cursor = [], ""
    while True:
        page = get(broker, f"/cluster/partitions?limit=3{cursor}")
        assert page["count"] == everything["count"]
        pages += page["partitions"]
        if "next_cursor" not in page:
            break
        assert len(page["partitions"]) == 3
        cursor = f"&cursor={page['next_cursor']}"
    assert pages == everything["partitions"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/cluster/partitions?topic=nothing", 404, "topic_not_found"),
        ("/cluster/partitions?cursor=x", 400, "invalid_request"),
        ("/cluster/partitions?cursor=orders:x", 400, "invalid_request"),
        ("/cluster/partitions?limit=0", 400, "invalid_request"),
        ("/admin/topics/nothing/scaling-status", 404, "topic_not_found"),
    ],
)
def test_what_is_refused(broker: BrokerProcess, path: str, status: int, code: str) -> None:
    assert get(broker, path, status)["code"] == code


MOVE = {"units": [{"unit": 0, "new_replicas": ["1", "2"]}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "command"),
    [
        ("POST", "/admin/reassignment", MOVE, "reassign 0 1,2"),
        ("POST", "/admin/reassignment", MOVE | {"dry_run": True}, "reassign 0 1,2 --dry-run"),
        ("DELETE", "/admin/reassignment/1", None, "reassignments 1 --cancel"),
        ("POST", "/cluster/nodes/1/drain", None, "drain 1"),
        ("DELETE", "/cluster/nodes/1/drain", None, "drain 1 --end"),
        ("DELETE", "/cluster/nodes/1", None, "remove 1"),
        ("POST", "/cluster/rebalance", {"dry_run": True}, "rebalance --dry-run"),
    ],
)
def test_what_needs_a_cluster_says_how_to_get_one(
    broker: BrokerProcess, method: str, path: str, body: Any, command: str
) -> None:
    status, document = broker.request(method, path, body)
    assert (status, document["code"], document["retryable"]) == (501, "not_supported", False), document
    assert "start a cluster with quiver serve --cluster" in document["error"]
    shown = Cli(broker.address)("cluster", *command.split(), fails=True).stderr.decode()
    assert "start a cluster with quiver serve --cluster" in " ".join(shown.split())
    listed = Cli(broker.address)("cluster", "reassignments", "-o", "json").stdout
    assert json.loads(listed) == get(broker, "/admin/reassignment") == {"reassignments": []}


def test_the_health_of_the_cluster(broker: BrokerProcess, worker_count: int) -> None:
    health = get(broker, "/cluster/health")
    assert (health["status"], health["nodes"], health["nodes_alive"]) == ("ok", 1, 1)
    assert (health["units"], health["units_without_leader"], health["units_behind"]) == (worker_count, [], [])
    assert health["controller"] == health["node"] == get(broker, "/cluster")["node_id"]
    assert health["partitions"] == get(broker, "/cluster/partitions")["count"]
    assert (health["partitions_offline"], health["partitions_behind"], health["problems"]) == (0, 0, {})


def test_how_a_topic_is_spread(broker: BrokerProcess, worker_count: int) -> None:
    node = get(broker, "/cluster")["node_id"]
    found = get(broker, "/admin/topics/orders/scaling-status")
    assert (found["topic"], found["partitions"], found["state"]) == ("orders", 5, "stable")
    assert found["partitions_by_node"] == {node: 5}
    assert sum(unit["partitions"] for unit in found["units"]) == 5
    assert len(found["units"]) == worker_count
    assert broker.request("POST", "/admin/topics/payments/partitions", {"count": 4})[0] == 200
    assert get(broker, "/admin/topics/payments/scaling-status")["partitions"] == 4
