"""A broker of several workers as a process."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from blackbox.processes.broker_process import is_alive, wait_until

_PROGRAM = Path(__file__).with_name("worker_program.py")


class WorkerBroker:
    def __init__(self, data_dir: Path, workers: int, *arguments: str) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir.with_suffix(".log")
        with self.log_path.open("ab") as log:
            command = [sys.executable, str(_PROGRAM), str(data_dir), str(workers), *arguments]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)

    def __enter__(self) -> "WorkerBroker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            pids = self.pids
            self.process.kill()
            for pid in pids:
                wait_until(lambda pid=pid: not is_alive(pid), 20, f"worker {pid} ends")
        self.process.wait()

    def wait_ready(self) -> "WorkerBroker":
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n", self.log
        return self

    @property
    def state(self) -> Any:
        path = self.data_dir / "broker.json"
        return json.loads(path.read_bytes()) if path.exists() else {"workers": []}

    @property
    def pids(self) -> list[int]:
        return [worker["pid"] for worker in self.state["workers"]]

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def kill_worker(self, worker: int) -> None:
        """Returns when another process is ready in its place."""
        before = self.state["workers"][worker]
        os.kill(before["pid"], signal.SIGKILL)
        wait_until(
            lambda: self.state["workers"][worker]["restarts"] > before["restarts"], 20, f"worker {worker} is back"
        )
