"""A real etcd for tests: one member or several, in a temporary directory, on free ports."""

import contextlib
import http.client
import json
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from free_port import free_port

_STARTING_SECONDS = 60.0


def program() -> str | None:
    """Where etcd is; None when it is not installed."""
    beside = Path(sys.executable).parent / "etcd"
    return str(beside) if beside.exists() else shutil.which("etcd")


class EtcdMember:
    def __init__(self, name: str, directory: Path, options: tuple[str, ...] = ()) -> None:
        self.name, self._directory, self._options = name, directory, options
        self.port, self.peer_port = free_port(), free_port()
        self.tls: ssl.SSLContext | None = None
        """How tests reach a member that wants certificates."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    def start(self, cluster: str) -> None:
        client_url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        options = {
            "--name": self.name,
            "--data-dir": str(self._directory / self.name),
            "--listen-client-urls": client_url,
            "--advertise-client-urls": client_url,
            "--listen-peer-urls": self.peer_url,
            "--initial-advertise-peer-urls": self.peer_url,
            "--initial-cluster": cluster,
            "--heartbeat-interval": "50",
            "--election-timeout": "500",
            "--logger": "zap",
        }
        found = program()
        assert found is not None
        words = [word for pair in options.items() for word in pair]
        with open(self._directory / f"{self.name}.log", "ab") as log:
            self._process = subprocess.Popen(
                [found, *words, "--unsafe-no-fsync", *self._options], stdout=log, stderr=log, cwd="/"
            )

    def wait(self) -> None:
        deadline = time.monotonic() + _STARTING_SECONDS
        while not self._is_healthy():
            assert self._process is not None
            assert self._process.poll() is None, (self._directory / f"{self.name}.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "etcd does not start"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def post(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        connection = self._connect()
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(request))
            found = json.loads(connection.getresponse().read())
            assert isinstance(found, dict)
            assert "error" not in found, found
            return found

    @property
    def is_leader(self) -> bool:
        status = self.post("/v3/maintenance/status", {})
        return bool(status["leader"] == status["header"]["member_id"])

    def _connect(self) -> http.client.HTTPConnection:
        if self.tls is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.tls)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def _is_healthy(self) -> bool:
        try:
            connection = self._connect()
            with contextlib.closing(connection):
                connection.request("GET", "/health")
                return bool(json.loads(connection.getresponse().read()).get("health") == "true")
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(30)


class EtcdCluster:
    def __init__(self, directory: Path, *, members: int = 1, options: tuple[str, ...] = ()) -> None:
        self.members = [EtcdMember(f"m{number}", directory, options) for number in range(members)]
        self._cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)

    def address(self, name: str, *, user: str = "", scheme: str = "etcd", query: str = "") -> str:
        hosts = ",".join(f"127.0.0.1:{member.port}" for member in self.members)
        return f"{scheme}://{user}{hosts}/{name}{query}"

    def start(self) -> "EtcdCluster":
        for member in self.members:
            member.start(self._cluster)
        for member in self.members:
            member.wait()
        return self

    def restart(self, member: EtcdMember) -> None:
        member.start(self._cluster)
        member.wait()

    def leader(self) -> EtcdMember:
        return next(member for member in self.members if member.is_leader)

    def compact(self) -> None:
        """Forgets all changes up to now."""
        revision = self.members[0].post("/v3/kv/range", {"key": "YQ=="})["header"]["revision"]
        self.members[0].post("/v3/kv/compaction", {"revision": revision})

    def stop(self) -> None:
        for member in self.members:
            member.resume()
            member.kill()


@contextmanager
def running_etcd(
    *, members: int = 1, options: tuple[str, ...] = (), tls: ssl.SSLContext | None = None
) -> Iterator[EtcdCluster]:
    with tempfile.TemporaryDirectory(prefix="quiver-etcd-") as directory:
        cluster = EtcdCluster(Path(directory), members=members, options=options)
        for member in cluster.members:
            member.tls = tls
        try:
            yield cluster.start()
        finally:
            cluster.stop()
