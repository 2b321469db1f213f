"""A real PostgreSQL for tests: a cluster of its own in a temporary directory, on a free port."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from free_port import free_port

_DEBIAN = Path("/usr/lib/postgresql")
_STARTING_SECONDS = 60.0
USER = "quiver"


def programs() -> Path | None:
    """Where initdb and postgres are; None when PostgreSQL is not installed."""
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


class PostgresCluster:
    """`durable` keeps fsync on. PostgreSQL refuses to run as root: then it runs as the user of its package."""

    def __init__(self, directory: Path, *, durable: bool = False, settings: tuple[str, ...] = ()) -> None:
        found = programs()
        assert found is not None
        self.directory = directory
        self._programs = found
        self._user = _user()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        sync = () if durable else ("fsync=off", "full_page_writes=off")
        self._settings = (*sync, "max_connections=60", "shared_buffers=64MB", *settings)

    @property
    def address(self) -> str:
        return self.address_at(self.port)

    def address_at(self, port: int) -> str:
        """Through a relay, for example."""
        return f"postgresql://{USER}@127.0.0.1:{port}/postgres"

    def give(self, directory: Path) -> None:
        """Makes a directory usable for the server."""
        if self._user is not None:
            shutil.chown(directory, self._user)

    def create(self) -> "PostgresCluster":
        self.directory.mkdir(parents=True, exist_ok=True)
        self.give(self.directory)
        command = ["initdb", "-D", str(self._data), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale", "-N"]
        subprocess.run(self._command(*command), check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as_user())
        return self

    def create_standby(self, directory: Path) -> "PostgresCluster":
        """A copy of this cluster, which is running, that follows it once it is started."""
        standby = PostgresCluster(directory, settings=self._settings)
        directory.mkdir(parents=True, exist_ok=True)
        standby.give(directory)
        source = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        command = ["pg_basebackup", *source, "-D", str(standby._data), "-R", "-X", "stream", "-c", "fast", "-N"]
        subprocess.run(self._command(*command), check=True, cwd="/", **self._as_user())
        return standby

    def start(self) -> "PostgresCluster":
        options = [f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.directory}"]
        flags = [word for option in (*options, *self._settings) for word in ("-c", option)]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", str(self._data), *flags), stderr=log, cwd="/", **self._as_user()
            )
        deadline = time.monotonic() + _STARTING_SECONDS
        ready = self._command("pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER)
        while subprocess.run(ready, check=False).returncode:
            assert self._process.poll() is None, (self.directory / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL does not start"
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        return self

    def stop(self) -> None:
        """Ends it as an administrator does, without waiting for clients."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As by a crash: shared memory is gone, and what was not synced."""
        self._end(signal.SIGQUIT)

    def sql(self, statement: str) -> str:
        """The first column of the result, a line per row."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres", "-Atqc", statement]
        result = subprocess.run(self._command(*command), check=False, capture_output=True, text=True)
        assert not result.returncode, result.stderr
        return result.stdout.strip()

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait(30)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _command(self, name: str, *words: str) -> list[str]:
        return [str(self._programs / name), *words]

    def _as_user(self) -> dict[str, str]:
        return {} if self._user is None else {"user": self._user, "group": self._user}


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that other users can reach: pytest closes its own to them, whenever a run begins."""
    directory = Path(tempfile.mkdtemp(prefix="quiver-postgres-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running_cluster(*, durable: bool = False) -> Iterator[PostgresCluster]:
    with open_directory() as directory:
        cluster = PostgresCluster(directory / "primary", durable=durable).create()
        try:
            yield cluster.start()
        finally:
            cluster.kill()


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None
