"""etcd as a process: one member on free ports."""

import signal
import subprocess
from pathlib import Path

from benchmarks.servers.presence import find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, stop, wait_for_port


class EtcdServer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @staticmethod
    def missing() -> str | None:
        found = find_program("etcd")
        return None if found is not None else "etcd is not installed (scripts/system-packages etcd)"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        directory = fresh_directory(self._directory)
        self.port, peer_port = free_port(), free_port()
        client, peer = f"http://{HOST}:{self.port}", f"http://{HOST}:{peer_port}"
        command = [str(find_program("etcd")), "--name", "bench", "--data-dir", str(directory / "data")]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"bench={peer}"]
        self._process = spawn(command, directory / "log")
        wait_for_port(self.port, self._process)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, signal.SIGKILL)
            self._process = None
