"""Start and stop of the shipped program: exit status, time, what is left behind, and who holds the data."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import QUIVER, BrokerExited, BrokerProcess, wait_until

Start = Callable[..., BrokerProcess]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_broker_with_status_0_within_10_seconds(broker: BrokerProcess, number: int) -> None:
    began = time.monotonic()
    assert broker.terminate(number=number) == 0
    assert time.monotonic() - began < 10
    assert "stopped" in broker.log_text
    assert "Traceback" not in broker.log_text


def test_many_signals_are_as_good_as_one(broker: BrokerProcess) -> None:
    process = broker._started()
    for _ in range(20):
        broker.send_signal(signal.SIGTERM)
        broker.send_signal(signal.SIGINT)
    while process.poll() is None:
        try:
            broker.send_signal(signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.001)
    assert broker.wait_exit() == 0
    assert "Traceback" not in broker.log_text


def test_a_signal_while_it_starts_ends_it_with_status_0(tmp_path: Path) -> None:
    """At several moments of the start: before the imports, before the loop, before the ports."""
    for pause in (0.15, 0.25, 0.35, 0.5):
        # With a prefix it is a new process, which imports the program itself.
        process = BrokerProcess(tmp_path / "data", prefix=["env"]).start(wait=False)
        try:
            time.sleep(pause)
            process.send_signal(signal.SIGTERM)
            status = process.wait_exit()
        finally:
            process.close()
        # Before Python has run a line of ours, the signal's default action is all there is.
        assert status in (0, -signal.SIGTERM), process.log_text
        assert "Traceback" not in process.log_text


def test_the_state_file_names_the_process_and_its_ports_and_goes_with_it(broker: BrokerProcess) -> None:
    path = broker.data_dir / "broker.json"
    state = json.loads(path.read_text())
    assert state["pid"] == broker._started().pid
    assert state["http"] == f"http://127.0.0.1:{state['http_port']}"
    assert state["native"] == f"127.0.0.1:{state['native_port']}"
    broker.terminate()
    assert not path.exists()


def test_a_second_broker_on_the_same_data_says_who_holds_it(broker: BrokerProcess, start_broker: Start) -> None:
    with pytest.raises(BrokerExited) as caught:
        start_broker(data_dir=broker.data_dir)
    assert caught.value.status == 1
    assert f"process {broker._started().pid}" in caught.value.log
    assert "Traceback" not in caught.value.log
    assert broker.request("GET", "/readyz")[0] == 200
    assert json.loads((broker.data_dir / "broker.json").read_text())["pid"] == broker.pid


@pytest.mark.parametrize("flag", ["--http-port", "--native-port"])
def test_a_port_that_is_taken_is_named(start_broker: Start, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerExited) as caught:
            start_broker(flag, str(port))
    assert caught.value.status == 1
    assert str(port) in caught.value.log
    assert flag.strip("-").replace("-", "_") in caught.value.log
    assert "Traceback" not in caught.value.log


def test_after_a_failed_start_the_data_is_free(start_broker: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(BrokerExited):
        start_broker("--http-port", str(taken.getsockname()[1]))
    assert start_broker().request("GET", "/readyz")[0] == 200


def test_what_was_accepted_is_answered_and_kept(broker: BrokerProcess) -> None:
    """Producers run while the broker is told to stop: every acked message is there after the next start."""
    with quiver.connect(broker.address) as q:
        q.topics.create("orders", partitions=2)
    acked: list[list[int]] = [[], [], []]
    threads = [threading.Thread(target=_publish, args=(broker.address, n, acked[n])) for n in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(len(numbers) > 20 for numbers in acked), 30, "every thread publishes")
    began = time.monotonic()
    assert broker.terminate() == 0
    assert time.monotonic() - began < 10
    for thread in threads:
        thread.join()
    broker.start()
    with quiver.connect(broker.address) as q:
        stored = {message.value for message in q.read("orders", end="latest")}
    for n, numbers in enumerate(acked):
        assert {b"%d-%d" % (n, number) for number in numbers} <= stored


def _publish(address: str, thread: int, acked: list[int]) -> None:
    try:
        with quiver.connect(address, timeout=1.0) as q:
            for number in range(1_000_000):
                q.publish("orders", b"%d-%d" % (thread, number))
                acked.append(number)
    except quiver.QuiverError:
        return


def test_a_waiting_reader_does_not_hold_the_stop_up(broker: BrokerProcess) -> None:
    seen = threading.Event()
    with quiver.connect(broker.address) as q:
        q.topics.create("quiet")
        with q.read("quiet") as reader:
            waiting = threading.Thread(target=lambda: [seen.set() for _ in reader], daemon=True)
            waiting.start()
            q.publish("quiet", b"seen")
            assert seen.wait(10), "it reads, and then waits for more"
            began = time.monotonic()
            assert broker.terminate() == 0
            assert time.monotonic() - began < 10
        waiting.join(10)
        assert not waiting.is_alive(), "a reader that is closed ends, also without a broker"


def test_a_log_that_nobody_reads_does_not_stop_the_broker(tmp_path: Path) -> None:
    """Standard error is a pipe that fills up; the broker goes on and ends cleanly."""
    command = [str(QUIVER), "serve", "--data-dir", str(tmp_path / "data"), "--http-port", "0", "--native-port", "0"]
    process = subprocess.Popen(
        [*command, "--log-level", "debug"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        state = tmp_path / "data/broker.json"
        wait_until(state.exists, 30, "broker.json")
        client = BrokerProcess(tmp_path / "data")
        client.http_port = json.loads(state.read_text())["http_port"]
        for _ in range(1500):
            assert client.request("GET", "/health")[0] == 200
        process.terminate()
        assert process.wait(15) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        assert process.stderr is not None
        process.stderr.close()


def test_a_bad_configuration_is_reported_whole_before_anything_is_touched(tmp_path: Path) -> None:
    data = tmp_path / "data"
    command = [str(QUIVER), "serve", "--data-dir", str(data), "--http-port", "http", "--log-level", "loud"]
    done = subprocess.run(command, capture_output=True, text=True, env={"QUIVER_SYNC_THREADS": "many"}, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 3
    assert not data.exists()


def test_the_data_directory_is_created_with_its_parents(start_broker: Start, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path / "a/b/c")
    assert (tmp_path / "a/b/c/broker.json").exists()
    assert broker.terminate() == 0


def test_a_data_directory_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    command = [str(QUIVER), "serve", "--data-dir", str(tmp_path / "file/data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert str(tmp_path / "file/data") in done.stderr
    assert "Traceback" not in done.stderr
