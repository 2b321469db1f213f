"""The shipped program as a process: `quiver serve` on free ports, started, waited for, stopped, killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from blackbox.processes.program import PROGRAMS, Program, can_be_forked
from free_port import free_port as free_port

QUIVER = Path(sys.executable).parent / "quiver"
START_SECONDS = 30.0
STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02
AnyProcess = subprocess.Popen[bytes] | Program


class BrokerExited(Exception):
    """The process ended before it was ready; `status` is its exit status, `log` what it said."""

    def __init__(self, status: int, log: str) -> None:
        self.status, self.log = status, log
        super().__init__(f"quiver serve ended with status {status}:\n{log[-4000:]}")


def wait_until(check: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer of `check`; AssertionError when there was none in time."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := check():
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(_POLL_SECONDS)


def is_alive(pid: int) -> bool:
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


class BrokerProcess:
    """One broker on one data directory. Start it again after `kill` or `terminate` for a restart on the same data.

    `prefix` is put before the command (`strace ...`), `environment` is added to the process's own; QUIVER_*
    variables of the caller are left out. The ports change with every start unless `args` name them.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *args: str,
        prefix: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.args = args
        self.prefix = list(prefix)
        self.environment = dict(environment or {})
        self.log_path = self.data_dir.parent / f"{self.data_dir.name}.broker.log"
        self.http_port = 0
        self.native_port = 0
        self.pid = 0
        self.readiness: Any = None
        """What /readyz said when it was last asked for by a start."""
        self._process: AnyProcess | None = None

    @property
    def address(self) -> str:
        """host:port of the native protocol, for `quiver.connect`."""
        return f"127.0.0.1:{self.native_port}"

    @property
    def http(self) -> str:
        """The base URL of the HTTP port, without a slash at the end."""
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def log_text(self) -> str:
        """What all starts of this object wrote to stdout and stderr."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, wait: bool = True, ready: bool = True) -> "BrokerProcess":
        """Starts the process; with `wait` until it listens, with `ready` until /readyz is 200."""
        assert not self.running, "the broker runs already"
        arguments = ["serve", "--data-dir", str(self.data_dir), *self._ports(), *self.args]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
        environment |= self.environment
        self._old_state = self._state_identity()
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = self._run(arguments, environment, log.fileno())
        if wait:
            self.wait_ready(ready=ready)
        return self

    def _run(self, arguments: list[str], environment: dict[str, str], log: int) -> AnyProcess:
        if self.prefix or "--workers" in arguments or not can_be_forked(self.environment):
            return subprocess.Popen(
                [*self.prefix, str(QUIVER), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment | {"PYTHONFAULTHANDLER": "1"},
                start_new_session=True,
            )
        with open(os.devnull) as nothing:
            return PROGRAMS.start(arguments, [nothing.fileno(), log, log], environment, new_session=True)

    def wait_ready(self, seconds: float = START_SECONDS, *, ready: bool = True) -> None:
        """Returns when the ports are known and /readyz answers 200 (or anything, without `ready`)."""
        try:
            state = wait_until(self._new_state, seconds, f"broker.json in {self.data_dir}")
            self.pid, self.http_port, self.native_port = state["pid"], state["http_port"], state["native_port"]
            wait_until(lambda: self._answers(ready), seconds, f"{self.http}/readyz is 200")
        except AssertionError as problem:
            self.kill()
            raise AssertionError(f"{problem}: {self.readiness}; the broker's log:\n{self.log_text[-4000:]}") from None

    def kill(self) -> None:
        """SIGKILL to the whole process group, and waits for the end."""
        self._signal_group(signal.SIGKILL)
        self._wait(STOP_SECONDS)

    @property
    def workers(self) -> list[dict[str, int]]:
        """Worker, pid and restarts of each, as they were when all were ready last; nothing if there is one."""
        found: list[dict[str, int]] = json.loads((self.data_dir / "broker.json").read_bytes()).get("workers", [])
        return found

    def kill_worker(self, worker: int) -> None:
        """SIGKILL; returns when another process is ready in its place."""
        before = self.workers[worker]
        os.kill(before["pid"], signal.SIGKILL)
        wait_until(lambda: self.workers[worker]["restarts"] > before["restarts"], START_SECONDS, f"worker {worker}")

    def kill_supervisor(self) -> None:
        """SIGKILL to the supervisor alone; returns when its workers have ended, too."""
        workers = [worker["pid"] for worker in self.workers]
        self.send_signal(signal.SIGKILL)
        self._wait(STOP_SECONDS)
        try:
            wait_until(lambda: not any(map(is_alive, workers)), STOP_SECONDS, "the workers end")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def send_signal(self, number: int) -> None:
        """A signal to the broker itself (not to strace or the like in front of it)."""
        os.kill(self.pid or self._started().pid, number)

    def terminate(self, seconds: float = STOP_SECONDS, number: int = signal.SIGTERM) -> int:
        """SIGTERM and wait; returns the exit status. One that does not end in time is killed and fails the test."""
        if self.running:
            self.send_signal(number)
        try:
            return self._wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"no end within {seconds} s of the signal:\n{self.log_text[-4000:]}") from None

    def wait_exit(self, seconds: float = STOP_SECONDS) -> int:
        """The exit status of a process that ends by itself."""
        return self._wait(seconds)

    def close(self) -> None:
        """Leaves no process behind, whatever state it is in."""
        if self._process is not None:
            self.kill()

    def restart(self, *, kill: bool = False) -> "BrokerProcess":
        """Stops (cleanly, or with SIGKILL) and starts again on the same data."""
        if kill:
            self.kill()
        else:
            assert self.terminate() == 0, self.log_text[-4000:]
        return self.start()

    def request(self, method: str, path: str, body: Any = None, *, timeout: float = 10.0) -> tuple[int, Any]:
        """An HTTP request with a JSON body; returns status and decoded answer, also for errors."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def resident_bytes(self) -> int:
        """The resident size of the broker process."""
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> "BrokerProcess":
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ports(self) -> list[str]:
        named = " ".join(self.args)
        flags = [flag for flag in ("--http-port", "--native-port") if flag not in named]
        return [word for flag in flags for word in (flag, "0")]

    def _started(self) -> AnyProcess:
        assert self._process is not None, "the broker was not started"
        return self._process

    def _wait(self, seconds: float) -> int:
        return self._started().wait(seconds)

    def _signal_group(self, number: int) -> None:
        # The group is the process's own (start_new_session), so nobody else's broker is hit.
        if self._started().poll() is None:
            os.killpg(self._started().pid, number)

    def _state_identity(self) -> tuple[int, int] | None:
        try:
            status = (self.data_dir / "broker.json").stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _new_state(self) -> dict[str, Any] | None:
        if (status := self._started().poll()) is not None:
            raise BrokerExited(status, self.log_text)
        if self._state_identity() in (None, self._old_state):
            return None
        try:
            state = dict(json.loads((self.data_dir / "broker.json").read_text()))
            # In our process group, so it is this broker's file and not that of a rival on the same directory.
            return state if os.getpgid(state["pid"]) == self._started().pid else None
        except (FileNotFoundError, ProcessLookupError, json.JSONDecodeError):
            return None

    def _answers(self, ready: bool) -> bool:
        if (status := self._started().poll()) is not None:
            raise BrokerExited(status, self.log_text)
        try:
            status, self.readiness = self.request("GET", "/readyz?verbose=true", timeout=5.0)
        except (OSError, ValueError):
            return False
        return status == 200 or not ready
