"""The shipped broker as a process: `quiver serve` on free ports, as a user starts it."""

import contextlib
import json
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import quiver
from benchmarks.servers.presence import find_program
from benchmarks.servers.server import HOST, ServerFailed, spawn, stop

START_SECONDS = 120
WARM_UP_TOPIC = "warm-up"


class Broker:
    """One data directory and the process that serves it; may be started again after a stop or a kill."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        self.data_dir = data_dir
        self._arguments = arguments
        self.start_seconds = 0.0
        """From the start of the process until /readyz was 200, Python's own start included."""
        self._process: subprocess.Popen[bytes] | None = None
        self._state: dict[str, Any] = {}

    @property
    def address(self) -> str:
        return f"{HOST}:{self._state['native_port']}"

    @property
    def http_port(self) -> int:
        return int(self._state["http_port"])

    @property
    def pid(self) -> int:
        return int(self._state["pid"])

    @property
    def pids(self) -> list[int]:
        """Of the processes whose descendants are all that there is of it."""
        return [self.pid]

    def worker_pids(self) -> list[int]:
        """Of its workers as they are now; of a broker that has one worker, its own."""
        workers = json.loads((self.data_dir / "broker.json").read_text()).get("workers")
        return [worker["pid"] for worker in workers] if workers else [self.pid]

    def units(self) -> dict[str, list[int]]:
        """The worker of each partition, by topic."""
        url = f"http://{HOST}:{self.http_port}/cluster?units=true"
        with urllib.request.urlopen(url, timeout=30) as response:
            topics: dict[str, list[int]] = json.load(response)["topics"]
            return topics

    def start(self) -> "Broker":
        program = find_program("quiver")
        if program is None:
            raise ServerFailed("the command quiver is not installed beside this Python")
        self.data_dir.mkdir(parents=True, exist_ok=True)
        state_file = self.data_dir / "broker.json"
        state_file.unlink(missing_ok=True)
        command = [program, "serve", "--data-dir", str(self.data_dir), "--http-port", "0", "--native-port", "0"]
        command += self._arguments
        begin = time.monotonic()
        log = self.data_dir.with_suffix(".log")
        self._process = spawn(command, log)
        while not self._is_ready(state_file):
            if self._process.poll() is not None or time.monotonic() - begin > START_SECONDS:
                self.kill()
                raise ServerFailed(
                    f"quiver serve did not become ready; its log ends with:\n{log.read_text()[-2000:]}"
                )
            time.sleep(max(0.005, (time.monotonic() - begin) / 100))  # looking costs something
        self.start_seconds = time.monotonic() - begin
        return self

    def stop(self, timeout: float = 30) -> None:
        """SIGTERM; whatever is left after the timeout is killed."""
        if self._process is not None:
            stop(self._process, timeout=timeout)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            stop(self._process, signal.SIGKILL)
            self._process = None

    def discard(self) -> None:
        """Ends the process and removes its data, so that a run needs no more disk than its largest workload."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def warm(self) -> None:
        """One message through each protocol, so that the first ones that are timed wait for no import."""
        with quiver.connect(self.address) as client:
            client.topics.create(WARM_UP_TOPIC)
            client.publish(WARM_UP_TOPIC, b"native", key=b"key")
            request = urllib.request.Request(
                f"http://{HOST}:{self.http_port}/topics/{WARM_UP_TOPIC}/messages",
                data=b'{"messages":[{"value":"http"}]}',
                headers={"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=30).close()
            with client.read(WARM_UP_TOPIC, start="earliest") as reader:
                next(iter(reader))
            client.topics.delete(WARM_UP_TOPIC)

    def __enter__(self) -> "Broker":
        self.start()
        self.warm()
        return self

    def __exit__(self, *error: object) -> None:
        self.discard()

    def _is_ready(self, state_file: Path) -> bool:
        with contextlib.suppress(OSError, ValueError, KeyError, urllib.error.URLError):
            self._state = json.loads(state_file.read_text())
            with urllib.request.urlopen(f"http://{HOST}:{self.http_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        return False
