"""Three nodes with replicas, on a real etcd: what is acked outlives any of them."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quiver
from blackbox.cluster.replicated_nodes import NODES, SECONDS, Nodes, StartBroker
from blackbox.metrics.scraped import total, values
from blackbox.processes.broker_process import BrokerExited, wait_until
from blackbox.processes.cli_process import Cli
from etcd_cluster import EtcdCluster, program, running_etcd
from quiver.model.errors import InvalidSetting, QuiverError
from quiver.model.limits import MIB

pytestmark = pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with running_etcd() as cluster:
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, etcd: EtcdCluster, tmp_path: Path, start_broker: StartBroker) -> Nodes:
    return Nodes(request.node.name.replace("_", "-")[:60], etcd, tmp_path, start_broker)


def test_what_is_acked_outlives_any_node(cluster: Nodes) -> None:
    acked: list[int] = []
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=6)
        number = 0

        def publish(count: int) -> None:
            nonlocal number
            with q.producer("orders", linger=0) as producer:
                for _ in range(count):
                    producer.send(b"%d" % number, key=b"%d" % (number % 17)).result()
                    acked.append(number)
                    number += 1

        publish(50)
        for killed in NODES:
            cluster.nodes[killed].kill()
            publish(50)
            cluster.nodes[killed].start(wait=False)
            cluster.nodes[killed].wait_ready(SECONDS)
            cluster.await_all_in_sync(killed)
        publish(10)
        stored = [int(message.value) for message in q.read("orders", start="earliest", end="latest")]
    assert sorted(stored) == acked, "each once"


def test_queues_groups_and_transactions_go_on(cluster: Nodes) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("jobs", partitions=4)
        q.topics.create("done", partitions=4)
        for number in range(60):
            q.publish("jobs", b"%d" % number, key=b"%d" % number)
        taken = 0
        with q.work("jobs", group="workers") as jobs:
            for job in jobs:
                taken += 1
                if taken == 20:
                    cluster.nodes[1].kill()
                try:
                    with q.transaction() as tx:
                        tx.publish("done", job.value)
                        tx.ack(job)
                except QuiverError as error:
                    if not error.retryable and error.code not in ("transaction_aborted", "lease_lost"):
                        raise
                if taken >= 60 and len(list(q.read("done", start="earliest", end="latest"))) >= 60:
                    break
        done = [int(message.value) for message in q.read("done", start="earliest", end="latest")]
        assert sorted(done) == list(range(60)), "each job once, whatever was aborted"
        cluster.nodes[1].start(wait=False)
        cluster.nodes[1].wait_ready(SECONDS)
        seen = []
        with q.stream("done", group="readers") as messages:
            for message in messages:
                seen.append(int(message.value))
                if len(seen) == 60:
                    break
    assert sorted(seen) == list(range(60))


def test_a_clean_stop_moves_leaderships_first(cluster: Nodes) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=6)
        q.publish("orders", b"before")
        cluster.await_all_in_sync(1)
        for found in q.topics.replicas("orders"):
            assert found.leader in found.replicas
            assert {each.address for each in found.in_sync} == {each.address for each in cluster.nodes.values()}
            assert {each.rack for each in found.replicas} == {"a", "b"}
        assert cluster.nodes[3].terminate() == 0
        assert "3" not in cluster.leaders(1)
        q.publish("orders", b"after")
        status, ready = cluster.nodes[1].request("GET", "/readyz?verbose=true")
        assert status == 200, ready
        done = Cli(cluster.nodes[1].address)("cluster", "status", "-o", "json")
        document = json.loads(done.stdout)
        assert {node["node"] for node in document["nodes"]} >= {"1", "2"}
        assert len(list(q.read("orders", start="earliest", end="latest"))) == 2


def test_the_nearest_replica_is_read(cluster: Nodes) -> None:
    near = cluster.nodes[3]
    with quiver.connect(near.address) as q:
        q.topics.create("orders", partitions=6)
        with q.producer("orders") as producer:
            producer.send_many([b"%d" % number for number in range(2_000)], keys=[b"%d" % n for n in range(2_000)])
        cluster.await_all_in_sync(1)

        def read(**options: Any) -> list[tuple[int, int, bytes]]:
            messages = q.read("orders", start="earliest", end="latest", **options)
            return sorted((message.partition, message.offset, message.value) for message in messages)

        everything = read()
        assert len(everything) == 2_000
        assert total(near, "quiver_replica_read_bytes_total") == 0
        assert read(read_from="nearest") == everything
        from_replicas = total(near, "quiver_replica_read_bytes_total")
        assert from_replicas > 0, "node 3 does not lead everything"
        seen = set()
        with q.stream("orders", group="readers", read_from="nearest") as messages:
            for message in messages:
                seen.add((message.partition, message.offset, message.value))
                if len(seen) == 2_000:
                    break
        assert sorted(seen) == everything
        assert total(near, "quiver_replica_read_bytes_total") > from_replicas
        cluster.nodes[1].kill()
        assert read(read_from="nearest") == everything, "also while leaders change"
        with pytest.raises(QuiverError, match="leader, nearest"):
            q.read("orders", read_from="somewhere")
    printed = Cli(near.address)("consume", "orders", "--read-from", "nearest").stdout
    assert len(printed.splitlines()) == 2_000


def test_without_a_second_replica_nothing_is_acked(cluster: Nodes) -> None:
    with quiver.connect(cluster.address, timeout=2) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"before")
        assert q.publish("orders", b"by the leader", acks="leader").offset == 1
        with q.producer("orders", acks="leader") as producer:
            assert producer.send(b"by the leader").result().offset == 2
        with pytest.raises(QuiverError, match="needs acks all"):
            q.producer("orders", acks="leader", idempotent=True)
        for acks, offset in (("leader", 3), ("none", -1)):
            body = {"messages": [{"value": "over HTTP"}], "acks": acks}
            status, response = cluster.nodes[1].request("POST", "/topics/orders/messages", body)
            assert (status, response["results"][0]["offset"]) == (200, offset)
        wrong = {"messages": [{"value": "over HTTP"}], "acks": "some"}
        assert cluster.nodes[1].request("POST", "/topics/orders/messages", wrong)[0] == 400
        Cli(cluster.nodes[1].address)("produce", "orders", "from a shell", "--acks", "leader")
        counted = (total(node, "quiver_published_acks_leader_frames_total") for node in cluster.nodes.values())
        assert sum(counted) == 4
        strict = q.topics.create("strict", partitions=1, min_isr=3).settings
        assert (strict["replication_factor"], strict["min_isr"]) == (3, 3)
        for settings in ({"replication_factor": 2}, {"min_isr": 1}):
            with pytest.raises(InvalidSetting, match="this cluster"):
                q.topics.create("other", **settings)
        q.publish("strict", b"before")
        cluster.await_all_in_sync(3)
        left = cluster.nodes[3]
        assert total(left, "quiver_cluster_units", role="leader") == len(cluster.status(3)["workers"]) / 3
        assert total(left, "quiver_cluster_units_refusing") == total(left, "quiver_cluster_units_behind") == 0

        def epochs() -> float:
            return sum(total(cluster.nodes[number], "quiver_cluster_epochs_total") for number in (2, 3))

        epochs_before = epochs()
        cluster.nodes[1].kill()
        wait_until(lambda: total(left, "quiver_cluster_units_behind"), SECONDS, "node 1 leaves the sets")
        wait_until(lambda: epochs() > epochs_before, SECONDS, "others lead what it led")
        with pytest.raises(QuiverError) as refused:
            q.publish("strict", b"to two")
        assert refused.value.retryable
        q.publish("orders", b"to two")
        assert q.topics.alter("strict", min_isr=2).settings["min_isr"] == 2
        q.publish("strict", b"to two, again")
        cluster.nodes[2].kill()
        wait_until(lambda: total(left, "quiver_cluster_units_refusing"), SECONDS, "nothing is accepted")
        assert {labels[1] for labels in values(left, "quiver_replica_lag_bytes")} == {
            "('node', '1')",
            "('node', '2')",
        }
        with pytest.raises(QuiverError) as refused:
            q.publish("orders", b"alone")
        assert refused.value.retryable
        assert "database" not in str(refused.value), "there is none"
    for number in (1, 2):
        cluster.nodes[number].start(wait=False)
    for number in (1, 2):
        cluster.nodes[number].wait_ready(SECONDS)
    with quiver.connect(cluster.address) as q:
        q.publish("orders", b"after")
        stored = [message.value for message in q.read("orders", start="earliest", end="latest")]
    assert stored[0] == b"before"
    assert stored[-1] == b"after"


def test_whose_disk_it_is(cluster: Nodes, tmp_path: Path) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=3)
        for number in range(20):
            q.publish("orders", b"%d" % number)
    cluster.nodes[3].kill()
    other = cluster.new(3, directory="node-2-copy")
    other.kill()
    for options, directory, problem in (
        (("--node-id", "4"), "node-3", "belongs to node 3 of this cluster"),
        (("--cluster-workers", "2"), "node-5", "cannot be changed"),
    ):
        with pytest.raises(BrokerExited, match=problem):
            cluster.new(3, *options, directory=directory).wait_ready(SECONDS)
    # its disk is lost: it comes back empty, and gets everything again
    empty = cluster.nodes[3] = cluster.new(3, directory="node-3-empty")
    empty.wait_ready(SECONDS)
    cluster.await_all_in_sync(3)
    cluster.nodes[1].kill()
    with quiver.connect(cluster.address) as q:
        values = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert values == list(range(20))


def test_a_disk_from_before_the_last_start_does_not_count(cluster: Nodes, tmp_path: Path) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=3)
        for number in range(10):
            q.publish("orders", b"%d" % number)
        cluster.await_all_in_sync(1)
        restored = cluster.nodes[3]
        assert restored.terminate() == 0
        shutil.copytree(tmp_path / "node-3", tmp_path / "old")
        restored.start(wait=False)
        restored.wait_ready(SECONDS)
        cluster.await_all_in_sync(1)
        for number in range(10, 20):
            q.publish("orders", b"%d" % number)
    for node in cluster.nodes.values():
        node.kill()
    shutil.rmtree(tmp_path / "node-3")
    (tmp_path / "old").rename(tmp_path / "node-3")

    def has_decided() -> bool:
        """The first one that is back leads, unless it has left the sets."""
        return all(each["node"] == "3" or "3" not in each["isr"] for each in cluster.status(3)["workers"])

    restored.start(wait=False)
    restored.wait_ready(SECONDS, ready=False)
    wait_until(has_decided, SECONDS, "node 3 leads or is in no set")
    cluster.nodes[2].start(wait=False)
    with quiver.connect(cluster.address, timeout=SECONDS) as q:
        values = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert values == list(range(20))


def test_a_new_node_takes_replicas_over(cluster: Nodes) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=6)
        for number in range(30):
            q.publish("orders", b"%d" % number)
        cluster.add(4, "--catch-up-bytes-per-second", "50MiB").wait_ready(SECONDS)
        cli = Cli(cluster.nodes[1].address)
        planned = json.loads(cli("cluster", "reassign", "0", "4,2,3", "--dry-run", "-o", "json").stdout)
        assert (planned["units"][0]["adding"], planned["throttle_bytes_per_sec"]) == (["4"], None)
        assert set(cluster.status(1)["workers"][0]["replicas"]) == {"1", "2", "3"}, "nothing was done"
        begun = json.loads(cli("cluster", "reassign", "0", "4,2,3", "--throttle", "20MiB", "-o", "json").stdout)
        assert begun["throttle_bytes_per_sec"] == 20 * MIB
        wait_until(lambda: cluster.status(1)["workers"][0]["node"] == "4", SECONDS, "node 4 leads worker 0")
        assert cluster.status(1)["workers"][0]["replicas"] == ["4", "2", "3"]
        assert cluster.status(1)["workers"][0]["throttle_bytes_per_sec"] == 0, "the limit ended with it"
        assert {node["catch_up_bytes_per_second"] for node in cluster.status(1)["nodes"]} == {0, 50 * MIB}
        refused = cli("cluster", "reassign", "1", "1,2,9", fails=True)
        assert b"9" in refused.stderr
        # a node that is gone for ever gives its replicas to the new one
        cluster.nodes[1].kill()
        cli = Cli(cluster.nodes[2].address)
        wait_until(lambda: "1" not in cluster.leaders(2), SECONDS, "others lead what node 1 led")
        cli("cluster", "remove", "1")

        def has_nothing() -> bool:
            workers = cluster.status(2)["workers"]
            return not any("1" in each["replicas"] for each in workers)

        wait_until(has_nothing, SECONDS, "node 1 has no replica")
        cluster.await_all_in_sync(2)
        values = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert values == list(range(30))


def test_partitions_are_reassigned_with_their_units(cluster: Nodes) -> None:
    with quiver.connect(cluster.address) as q:
        q.topics.create("orders", partitions=12)
        for number in range(60):
            q.publish("orders", b"%d" % number, key=b"%d" % number)
        cluster.await_all_in_sync(1)
        cluster.add(4).wait_ready(SECONDS)
        moves = Moves(cluster, asked=2)
        before = moves.partition(0)
        assert (before["isr"], before["leader"] in before["replicas"]) == (before["replicas"], True)
        old, target = before["replicas"], ["4", *before["replicas"][1:]]
        wanted = {"partitions": [{"topic": "orders", "partition": 0, "new_replicas": [int(node) for node in target]}]}
        moves.check_a_dry_run(wanted, before, target)
        # one that cannot go on is cancelled, and another one takes too long
        number = moves.begin_without_node_4(wanted)
        assert moves.get(number)["state"] == "running"
        assert moves.unit(before["unit"])["adding"] == ["4"]
        assert moves.call("GET", "/admin/topics/orders/scaling-status")["moving_partitions"] == 2
        assert moves.call("GET", "/cluster/health")["units_moving"] == [before["unit"]]
        shown = moves.cli("cluster", "reassignments", str(number), "--cancel").stdout.decode()
        assert "cancelled" in shown
        wait_until(lambda: moves.is_settled(before["unit"], old), SECONDS, "it is back")
        assert moves.get(number)["state"] == "cancelled"
        number = moves.begin_without_node_4(wanted | {"timeout_per_partition_sec": 1})
        wait_until(lambda: moves.get(number)["state"] == "timed_out", SECONDS, "its time is over")
        wait_until(lambda: moves.is_settled(before["unit"], old), SECONDS, "it is back again")
        # and one is done
        moves.resume_node_4()
        moves.cli("cluster", "reassign", "orders:0", ",".join(target), "--timeout", "5m")
        listed = moves.call("GET", "/admin/reassignment")["reassignments"]
        assert [each["state"] for each in listed[1:]] == ["timed_out", "cancelled"]
        number = listed[0]["reassignment_id"]
        wait_until(lambda: moves.get(number)["ended_at"], SECONDS, "it is done")
        done = moves.get(number)
        assert (done["state"], done["progress"]["percent"], done["progress"]["partitions_done"]) == ("done", 100, 2)
        assert moves.partition(0)["replicas"] == moves.partition(6)["replicas"] == target
        wait_until(lambda: moves.partition(0)["leader"] == "4", SECONDS, "the first of the list leads")
        assert moves.call("DELETE", f"/admin/reassignment/{number}")["state"] == "done", "it stays so"
        assert moves.call("GET", "/admin/reassignment/99", 404)["code"] == "reassignment_not_found"
        stored = sorted(int(message.value) for message in q.read("orders", start="earliest", end="latest"))
    assert stored == list(range(60))


class Moves:
    """Reassignments, asked of one node."""

    def __init__(self, cluster: Nodes, asked: int) -> None:
        self._cluster, self._node = cluster, cluster.nodes[asked]
        self.cli = Cli(self._node.address)

    def call(self, method: str, path: str, expected: int = 200, body: Any = None) -> Any:
        status, document = self._node.request(method, path, body)
        assert status == expected, document
        return document

    def get(self, number: int) -> Any:
        return self.call("GET", f"/admin/reassignment/{number}")

    def partition(self, number: int) -> Any:
        return self.call("GET", "/cluster/partitions?topic=orders")["partitions"][number]

    def unit(self, number: int) -> Any:
        return self.call("GET", "/cluster")["units"][number]

    def is_settled(self, unit: int, replicas: list[str]) -> bool:
        found = self.unit(unit)
        return (found["replicas"], found["adding"], found["removing"]) == (replicas, [], [])

    def check_a_dry_run(self, wanted: dict[str, Any], before: Any, target: list[str]) -> None:
        planned = self.call("POST", "/admin/reassignment", body=wanted | {"dry_run": True})
        assert (planned["reassignment_id"], planned["state"], len(planned["units"])) == (None, "planned", 1)
        move = planned["units"][0]
        assert (move["unit"], move["old_replicas"], move["new_replicas"], move["adding"]) == (
            before["unit"],
            before["replicas"],
            target,
            ["4"],
        )
        assert [each["partition"] for each in move["partitions"]] == [0, 6], "those of the same unit go with it"
        assert self.call("GET", "/admin/reassignment") == {"reassignments": []}
        assert self.partition(0) == before
        other = {"unit": before["unit"], "new_replicas": before["replicas"]}
        for refused, status, code in (
            (wanted | {"units": [other]}, 400, "invalid_request"),
            ({"units": [other | {"unit": 6}]}, 400, "invalid_request"),
            ({"units": [other | {"new_replicas": ["1", "2", "9"]}]}, 404, "node_not_found"),
            ({"units": [other | {"new_replicas": ["1"]}]}, 400, "invalid_request"),
        ):
            assert self.call("POST", "/admin/reassignment", status, refused)["code"] == code

    def begin_without_node_4(self, wanted: dict[str, Any]) -> int:
        """It is stopped, and still a member when the reassignment begins."""

        def begin() -> int | None:
            self.resume_node_4()
            os.kill(self._cluster.nodes[4].pid, signal.SIGSTOP)
            status, document = self._node.request("POST", "/admin/reassignment", wanted)
            assert status in (202, 404), document
            return document["reassignment_id"] if status == 202 else None

        number: int = wait_until(begin, SECONDS, "a reassignment begins")
        return number

    def resume_node_4(self) -> None:
        os.kill(self._cluster.nodes[4].pid, signal.SIGCONT)
        wait_until(self._has_node_4, SECONDS, "node 4 is a member")

    def _has_node_4(self) -> bool:
        nodes = {each["node"]: each["state"] for each in self.call("GET", "/cluster/nodes")["nodes"]}
        return nodes.get("4") in ("alive", "joining")
