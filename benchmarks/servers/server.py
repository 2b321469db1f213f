"""Server processes: start one, wait for its port, stop it, and see what it uses."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class ServerFailed(Exception):
    """A server did not come up."""


def free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def fresh_directory(path: Path, owner: str | None = None) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    if owner is not None:
        shutil.chown(path, owner, owner)
    return path


def spawn(command: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Starts a server in a session of its own, with its output in `log`. Python may keep what it has compiled: as
    for users, starts do not compile the program again."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **{"env": environment, **options},
        )


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailed(f"{process.args!r} ended with status {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 0.5):
            return
        time.sleep(0.05)
    raise ServerFailed(f"{process.args!r} did not open port {port} within {timeout} s")


def stop(process: subprocess.Popen[bytes], stop_signal: int = signal.SIGTERM, timeout: float = 20) -> None:
    """Asks the server to stop, then ends what is left of the session it was started in."""
    if process.poll() is None:
        process.send_signal(stop_signal)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pids: Iterable[int]) -> float:
    """Processor time so far of these processes and all that descend from them."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                children.setdefault(int(fields[1]), []).append(int(entry))
                ticks[int(entry)] = sum(int(field) for field in fields[11:15])
    total, todo = 0, list(pids)
    while todo:
        pid = todo.pop()
        total += ticks.get(pid, 0)
        todo += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")
