"""`quiver doctor` against brokers and directories that are well, and against ones that are not."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.operate.doctor_run import doctor, found
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from blackbox.processes.cli_process import run_cli
from blackbox.processes.strace_faults import inject
from quiver.model.errors import PartitionOffline

StartBroker = Callable[..., BrokerProcess]

_SHIFTED = """
import time

_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + 3600
time.time_ns = lambda: _time_ns() + 3600 * 10**9
"""


def test_a_healthy_broker_passes_every_check(broker: BrokerProcess) -> None:
    findings = doctor(broker.address)
    assert not found(findings, "health", verdict="problem")
    checks = {each["check"] for each in findings}
    expected = {"broker", "versions", "clock", "configuration", "disk", "open files", "health", "topics", "groups"}
    assert checks == expected | {"dead letters"}
    for check in ("broker", "versions", "clock", "configuration", "open files", "health", "topics", "groups"):
        assert found(findings, check, verdict="ok"), findings


def test_the_table_shows_each_finding_with_what_to_do(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"1")
        with q.stream("orders", group="billing") as stream:
            next(iter(stream))
        q.publish("orders", b"2")
    done = run_cli(broker.address, "doctor")
    lines = done.stdout.decode().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("WARNING  groups: billing has no "))
    assert "quiver group delete billing" in lines[at + 1]
    assert lines[-1].startswith("0 problems, ")
    assert done.returncode == 0
    assert run_cli(broker.address, "doctor", "--strict").returncode == 3
    assert b"verdict: warning" in run_cli(broker.address, "doctor", "-o", "yaml").stdout


def test_no_broker_is_a_problem_with_advice() -> None:
    findings = doctor(f"127.0.0.1:{free_port()}", status=3)
    [missing] = found(findings, "broker", verdict="problem")
    assert "Connection refused" in missing["message"]
    assert "quiver serve" in missing["advice"]


def test_a_failed_sync_names_the_topic_and_its_reason(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address, timeout=1) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"before", partition=0)
        with inject(broker.pid, "error=EIO"), pytest.raises(PartitionOffline):
            q.publish("orders", b"lost", partition=0)
    findings = doctor(broker.address, status=3)
    [offline] = found(findings, "topics", verdict="problem")
    assert offline["message"].startswith("orders takes no writes in partition 0: ")
    assert "restart the broker" in offline["advice"]


def test_a_full_disk_is_a_problem(broker: BrokerProcess) -> None:
    broker.terminate()
    directory = ("--data-dir", str(broker.data_dir))
    [full] = found(doctor("", *directory, status=3, QUIVER_MIN_FREE_BYTES="1000TiB"), "disk", verdict="problem")
    assert "writes are refused" in full["message"]
    assert "retention" in full["advice"]


def test_risky_settings_of_the_running_broker_are_named(start_broker: StartBroker) -> None:
    broker = start_broker("--auto-create", "--min-free-bytes", "0", "--topic", "durability=memory")
    messages = [each["message"] for each in found(doctor(broker.address), "configuration", verdict="warning")]
    for name in ("auto_create", "min_free_bytes", "topic.durability"):
        assert any(name in message for message in messages), messages


def test_errors_in_the_configuration_are_all_named(tmp_path: Path) -> None:
    path = tmp_path / "quiver.toml"
    path.write_text('http_port = "x"\nno_such_setting = 1\n')
    arguments = ("--config", str(path), "--data-dir", str(tmp_path / "nothing"))
    findings = doctor("", *arguments, status=3)
    messages = [each["message"] for each in found(findings, "configuration", verdict="problem")]
    assert [message.split()[0] for message in messages] == ["http_port", "no_such_setting"]
    assert found(findings, "data directory", verdict="problem")


def test_a_clock_that_differs_is_a_problem(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(_SHIFTED)
    [off] = found(doctor(broker.address, status=3, PYTHONPATH=str(tmp_path)), "clock", verdict="problem")
    assert "behind this machine's" in off["message"]
    assert "chrony" in off["advice"]


def test_new_dead_letters_are_a_warning(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
        q.publish("orders", b"1")
    status, received = broker.request("POST", "/topics/orders/receive", {"group": "packers", "wait": "10s"})
    assert status == 200
    receipt = received["messages"][0]["receipt_handle"]
    assert broker.request("POST", "/messages/reject", {"receipt_handle": receipt, "reason": "no"})[0] == 200
    [growing] = found(doctor(broker.address), "dead letters", verdict="warning")
    assert growing["message"] == "orders: 1 came in the last hour, 1 wait"
    assert "quiver dlq list orders" in growing["advice"]
    broker.request("POST", "/topics/orders/dlq/purge", {"all": True})


def test_an_http_port_that_is_not_reachable_is_a_warning_and_the_rest_is_checked(broker: BrokerProcess) -> None:
    findings = doctor(broker.address, "--http", f"http://127.0.0.1:{free_port()}")
    assert found(findings, "http", verdict="warning")
    assert found(findings, "groups", verdict="ok")
    assert not found(findings, "health", verdict="ok")


def test_a_data_directory_finds_its_broker_and_is_checked_without_one(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
        q.publish("orders", b"1")
    directory = ("--data-dir", str(broker.data_dir))
    with_broker = doctor("", *directory)
    assert found(with_broker, "broker", verdict="ok")
    assert "used by the broker" in found(with_broker, "data directory", verdict="ok")[0]["message"]
    broker.kill()
    killed = doctor("", *directory)
    assert not found(killed, "broker", verdict="ok")
    assert "did not stop cleanly" in found(killed, "data directory", verdict="warning")[0]["message"]
    assert found(killed, "logs", verdict="ok")
    broker.start()
    broker.terminate()
    assert "no broker uses it" in found(doctor("", *directory), "data directory", verdict="ok")[0]["message"]


def test_a_journal_that_cannot_be_read_is_a_problem(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=1)
    broker.terminate()
    journal = broker.data_dir / "logs" / "internal" / "coordination"
    for path in journal.glob("*.snapshot*"):
        path.unlink()
    [segment] = journal.glob("*.log")
    segment.rename(segment.with_name("00000000000000000007.log"))
    [damaged] = found(doctor("", "--data-dir", str(broker.data_dir), status=3), "logs", verdict="problem")
    assert "journal of topics" in damaged["message"]
    assert "backup" in damaged["advice"]


def test_files_from_the_future_mean_that_the_clock_went_back(broker: BrokerProcess, tmp_path: Path) -> None:
    broker.terminate()
    copy = tmp_path / "copy"
    shutil.copytree(broker.data_dir, copy)
    os.utime(copy / "epoch", (4e9, 4e9))
    [moved] = found(doctor("", "--data-dir", str(copy)), "clock", verdict="warning")
    assert "in the future" in moved["message"]


def test_node_and_logs_say_what_runs_and_what_it_logged(start_broker: StartBroker) -> None:
    broker = start_broker("--host", "127.0.0.1", "--log-requests")
    status, node = broker.request("GET", "/node")
    assert (status, node["pid"]) == (200, broker.pid)
    assert node["data_dir"]["path"] == str(broker.data_dir.resolve())
    assert node["settings"]["log_requests"] is True
    assert node["open_files"]["limit"] >= node["open_files"]["open"] > 0
    assert broker.request("GET", "/version")[0] == 200
    wait_until(lambda: _has_logged(broker, "GET /node 200"), 10, "the request is logged")
    assert broker.request("GET", "/logs?level=error")[1]["lines"] == []
    assert len(broker.request("GET", "/logs?limit=1")[1]["lines"]) == 1
    assert broker.request("GET", "/logs?level=loud")[0] == 400


def _has_logged(broker: BrokerProcess, start: str) -> bool:
    return any(line["message"].startswith(start) for line in broker.request("GET", "/logs")[1]["lines"])


def test_the_sdk_knows_the_http_port(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as q:
        assert q.http_url() == broker.http
    with quiver.open(":memory:") as embedded:
        assert embedded.http_url() is None
    assert json.loads(run_cli(broker.address, "doctor", "-o", "json").stdout)["verdict"] in ("ok", "warning")
