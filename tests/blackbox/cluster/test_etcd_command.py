"""`quiver cluster etcd` tells whether an etcd can be used."""

import json
import socket
from pathlib import Path

from blackbox.cluster.replicated_nodes import StartBroker
from blackbox.processes.cli_process import run_cli
from etcd_cluster import EtcdCluster


def test_members_that_respond_and_members_that_do_not(etcd: EtcdCluster) -> None:
    with socket.socket() as nobody:  # bound, and nobody listens
        nobody.bind(("127.0.0.1", 0))
        gone = f"127.0.0.1:{nobody.getsockname()[1]}"
        here = f"127.0.0.1:{etcd.members[0].port}"
        done = run_cli("", "cluster", "etcd", f"etcd://{gone},{here}/check", "--output", "json")
        assert not done.returncode, done.stderr
        found = json.loads(done.stdout)
        assert [member["endpoint"] for member in found["members"]] == [gone, here]
        assert gone in found["members"][0]["problem"]
        assert found["members"][1]["problem"] is None
        assert found["members"][1]["version"].startswith("3.")
        assert 0 < found["write_ms"] <= found["write_to_watch_ms"]
        assert b"WRITE TO WATCH MS" in run_cli("", "cluster", "etcd", f"etcd://{here}/check").stdout
        alone = run_cli("", "cluster", "etcd", f"etcd://{gone}/check")
    assert alone.returncode
    assert b"etcd cannot be used now" in alone.stderr
    left = etcd.members[0].post("/v3/kv/range", {"key": "cXVpdmVyL2NoZWNrL2M=", "range_end": "cXVpdmVyL2NoZWNrL2Q="})
    assert "kvs" not in left
    wrong = run_cli("", "cluster", "etcd", "etcd://host")
    assert wrong.returncode
    assert b"the address has no name" in wrong.stderr


def test_a_name_is_looked_up(etcd: EtcdCluster, start_broker: StartBroker, tmp_path: Path) -> None:
    """Of its addresses one responds; the others, if the machine has some, are told."""
    hosts = f"localhost:{etcd.members[0].port}"
    done = run_cli("", "cluster", "etcd", f"etcd://{hosts}/names", "--output", "json")
    assert not done.returncode, done.stderr
    members = json.loads(done.stdout)["members"]
    assert [member["problem"] for member in members].count(None) == 1
    assert all(member["endpoint"].startswith(hosts) for member in members)
    alone = ("--cluster", "names", "--etcd", hosts, "--node-id", "1", "--replication-factor", "1")
    node = start_broker(*alone, data_dir=tmp_path / "node", wait=False)
    node.wait_ready(60.0)
    assert node.request("GET", "/cluster/health")[1]["status"] == "ok"
