"""`quiver doctor --bundle`: what is in it, and that nothing of a message is."""

import base64
import json
import stat
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from blackbox.processes.cli_process import run_cli

SECRET = "Zq7xK9wPmarker"
"""In everything that users write into messages: its absence is looked for in every form."""
FORMS = (
    SECRET.encode(),
    base64.b64encode(SECRET.encode())[:16],
    base64.b64encode(b"x" + SECRET.encode())[2:18],
    base64.b64encode(b"xx" + SECRET.encode())[4:20],
    SECRET.encode().hex().encode(),
)


@pytest.fixture
def filled(start_broker: Callable[..., BrokerProcess]) -> Iterator[BrokerProcess]:
    """A broker with messages in every state, and the marker in every place that a client can write to."""
    broker = start_broker("--log-requests", "--log-level", "debug")
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1, visibility="10m", max_attempts=1)
        for number in range(6):
            q.publish(
                "orders", f"{SECRET} {number}", f"{SECRET}-key", headers={"source": SECRET}, id=f"{SECRET}{number}"
            )
        q.publish("orders", SECRET, delay="1h")
        q.schedules.add("0 0 1 1 *", "orders", SECRET, name="yearly", key=SECRET)
        with q.stream("orders", group="readers") as stream:
            next(iter(stream))
        q.transactional("billing", timeout="10m").begin().publish("orders", SECRET, SECRET)
        _use_queue(broker)
        broker.request("GET", f"/topics/orders/dlq?contains={SECRET}&key={SECRET}")
        broker.request("POST", "/topics/orders/messages", {"messages": [{"value": SECRET, "partition": SECRET}]})
        yield broker


def _use_queue(broker: BrokerProcess) -> None:
    """A dead letter with a reason, a leased message with blocked keys after it, one that was given back."""

    def receive() -> str:
        body = {"group": "packers", "consumer": "packer-1", "ordering": "key", "max_messages": 1, "wait": "10s"}
        _, received = broker.request("POST", "/topics/orders/receive", body, timeout=20)
        return str(received["messages"][0]["receipt_handle"])

    rejected = {"receipt_handle": receive(), "reason": f"cannot read {SECRET}"}
    assert broker.request("POST", "/messages/reject", rejected)[0] == 200
    receive()
    broker.request("POST", "/messages/ack", {"receipt_handle": SECRET})
    _, depth = broker.request("GET", "/topics/orders/queues/packers")
    assert depth["blocked_keys"][0]["key"] == f"{SECRET}-key"


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        assert all(member.isfile() and member.name.startswith("quiver-support/") for member in members)
        files = {member.name: archive.extractfile(member) for member in members}
        return {name.removeprefix("quiver-support/"): file.read() for name, file in files.items() if file}


def test_a_bundle_has_what_helps_and_nothing_of_a_message(filled: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "support.tar.gz"
    password = {"QUIVER_ADVERTISE": "http://user:hunter2@broker"}
    arguments = ("doctor", "--data-dir", str(filled.data_dir), "--bundle", str(path))
    done = run_cli(filled.address, *arguments, **password)
    assert done.returncode in (0, 3), done.stderr.decode()  # 3: a check failed, as on a busy machine
    assert b"look through it before you send it" in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files = unpacked(path)
    assert set(files) >= {
        *("README.txt", "doctor.json", "versions.json", "configuration.json", "files.txt"),
        *("broker/node.json", "broker/readyz.json", "broker/stats.json", "broker/log.jsonl", "broker/topics.json"),
        *("broker/groups.json", "broker/queues.json", "broker/reliability.json", "broker/transactions.json"),
    }
    for name, data in files.items():
        for form in FORMS:
            assert form not in data, name
        assert b"hunter2" not in data, name
    assert json.loads(files["broker/stats.json"])["topic_stats"]["orders"]["messages"] >= 6
    topics = {topic["name"]: topic for topic in json.loads(files["broker/topics.json"])}
    assert topics["orders"]["settings"]["visibility"] == "10m"
    groups = {group["id"]: group for group in json.loads(files["broker/groups.json"])}
    assert set(groups) == {"readers", "packers"}
    [queue] = [queue for queue in json.loads(files["broker/queues.json"]) if queue["group"] == "packers"]
    assert (queue["leased"], queue["blocked_keys"]) == (1, 1)
    assert b"logs/internal/coordination/" in files["files.txt"]
    assert b"POST /topics/orders/receive 200" in files["broker/log.jsonl"]
    shown = {row["setting"]: row for row in json.loads(files["configuration.json"])}
    assert shown["advertise"] == {
        "setting": "advertise",
        "shown": "http://user:********@broker",
        "origin": "environment QUIVER_ADVERTISE",
    }


def test_a_bundle_without_a_broker_has_the_rest_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "support.tar.gz"
    done = run_cli(f"127.0.0.1:{free_port()}", "doctor", "--bundle", str(path))
    assert done.returncode == 3
    files = unpacked(path)
    assert set(files) == {"README.txt", "doctor.json", "versions.json", "configuration.json"}
    assert b"left out: everything of the broker" in files["README.txt"]


def test_a_bundle_never_replaces_a_file(tmp_path: Path) -> None:
    path = tmp_path / "support.tar.gz"
    path.write_bytes(b"mine")
    done = run_cli(f"127.0.0.1:{free_port()}", "doctor", "--bundle", str(path))
    assert done.returncode == 1
    assert b"exists already" in done.stderr
    assert path.read_bytes() == b"mine"
    nowhere = run_cli(f"127.0.0.1:{free_port()}", "doctor", "--bundle", str(tmp_path / "no" / "x.tar.gz"))
    assert (nowhere.returncode, b"cannot write" in nowhere.stderr) == (1, True)
