"""The supervisor as a process: it starts workers again, gives up, stops them, and they stop without it."""

import os
import signal
from pathlib import Path

from blackbox.processes.broker_process import is_alive, wait_until
from blackbox.workers.worker_broker import WorkerBroker


def test_workers_are_started_again_and_end_with_status_0(tmp_path: Path) -> None:
    with WorkerBroker(tmp_path / "data", 3) as broker:
        state = broker.wait_ready().state
        assert state["pid"] == broker.process.pid
        assert [worker["worker"] for worker in state["workers"]] == [0, 1, 2]
        assert len(os.listdir(f"/proc/{broker.process.pid}/task")) == 1, "the supervisor has no threads"
        broker.kill_worker(1)
        again = broker.state["workers"]
        assert [worker["restarts"] for worker in again] == [0, 1, 0]
        assert "worker 1" in broker.log
        assert "was killed by SIGKILL and is started again; 1 of at most 4 ends within 60 s" in broker.log
        broker.process.send_signal(signal.SIGTERM)
        assert broker.process.wait(15) == 0, broker.log
        assert not any(is_alive(worker["pid"]) for worker in again)
        assert not (tmp_path / "data" / "broker.json").exists()


def test_workers_stop_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    with WorkerBroker(tmp_path / "data", 2) as broker:
        pids = broker.wait_ready().pids
        broker.process.kill()
        broker.process.wait()
        wait_until(lambda: not any(map(is_alive, pids)), 15, "the workers end")
        assert broker.log.count("the supervisor is gone: stopping") == 2
        assert broker.log.count(": stopped worker=") == 2, "they ended as by SIGTERM"
    with WorkerBroker(tmp_path / "data", 2) as broker:
        broker.wait_ready()
        with WorkerBroker(tmp_path / "data", 2) as second:
            assert second.process.wait(20) == 1
        assert f"held by process {broker.process.pid}" in broker.log


def test_a_worker_that_ends_at_every_start_ends_the_broker(tmp_path: Path) -> None:
    with WorkerBroker(tmp_path / "data", 2, "crash") as broker:
        assert broker.process.wait(30) == 1
        assert "worker 1" in broker.log
        assert "ended with status 3: 5 workers have ended within 60 s; the broker stops" in broker.log
        assert broker.process.stdout is not None
        assert broker.process.stdout.read() == b"", "it was never ready"
