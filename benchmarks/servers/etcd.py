"""etcd as processes: members of one cluster on free ports."""

import contextlib
import json
import signal
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.servers.presence import find_program
from benchmarks.servers.server import HOST, ServerFailed, free_port, fresh_directory, spawn, stop, wait_for_port

_ELECTION_SECONDS = 30


class EtcdServer:
    """One member. It keeps its data and ports when it is started again."""

    def __init__(self, name: str) -> None:
        self.name, self.port, self._peer_port = name, free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def peer(self) -> str:
        return f"{self.name}=http://{HOST}:{self._peer_port}"

    @property
    def is_leader(self) -> bool:
        with contextlib.suppress(OSError):
            status = self._status()
            return bool(status.get("leader") == status["header"]["member_id"])
        return False

    def start(self, directory: Path, peers: str) -> None:
        client, peer = f"http://{HOST}:{self.port}", f"http://{HOST}:{self._peer_port}"
        command = [str(find_program("etcd")), "--name", self.name, "--data-dir", str(directory / self.name)]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", peers, "--heartbeat-interval", "50", "--election-timeout", "500"]
        self._process = spawn(command, directory / f"{self.name}.log")

    def wait(self) -> None:
        assert self._process is not None
        wait_for_port(self.port, self._process)

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, signal.SIGKILL)
            self._process = None

    def _status(self) -> Any:
        url = f"http://{HOST}:{self.port}/v3/maintenance/status"
        with urllib.request.urlopen(url, data=b"{}", timeout=5) as response:
            return json.load(response)


class EtcdServers:
    """Three members on one machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.members = [EtcdServer(f"m{number}") for number in range(3)]

    @staticmethod
    def missing() -> str | None:
        found = find_program("etcd")
        return None if found is not None else "etcd is not installed (scripts/system-packages etcd)"

    @property
    def addresses(self) -> str:
        return ",".join(f"{HOST}:{member.port}" for member in self.members)

    def start(self) -> None:
        fresh_directory(self._directory)
        for member in self.members:
            self.start_member(member)
        for member in self.members:
            member.wait()
        self.leader()

    def start_member(self, member: EtcdServer) -> None:
        member.start(self._directory, ",".join(each.peer for each in self.members))

    def leader(self) -> EtcdServer:
        deadline = time.monotonic() + _ELECTION_SECONDS
        while time.monotonic() < deadline:
            for member in self.members:
                if member.is_leader:
                    return member
            time.sleep(0.05)
        raise ServerFailed(f"etcd has no leader after {_ELECTION_SECONDS} s")

    def stop(self) -> None:
        for member in self.members:
            member.stop()
