"""PostgreSQL as a process: a cluster of its own on a free port."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.servers.presence import find_program
from benchmarks.servers.server import HOST, ServerFailed, free_port, fresh_directory, spawn, stop, wait_for_port

USER = "postgres"


def postgres_program(name: str) -> str | None:
    """None when PostgreSQL is not installed."""
    return find_program(name, f"/usr/lib/postgresql/*/bin/{name}")


class PostgresServer:
    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.version = ""

    @property
    def address(self) -> str:
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    def start(self) -> subprocess.Popen[bytes]:
        """Returns when it takes connections."""
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # the server refuses to run as root
            as_user = {"user": USER, "group": USER, "extra_groups": []}
        directory = fresh_directory(self._directory, USER if as_user else None)
        data, program = str(directory / "data"), str(postgres_program("postgres"))
        subprocess.run(
            [str(postgres_program("initdb")), "-D", data, "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C"],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=directory,
            **as_user,
        )
        said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
        self.version = "PostgreSQL " + said.split()[2]
        self.port = free_port()
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        command = [program, "-D", data, "-p", str(self.port), "-h", HOST, "-k", str(directory)]
        self._process = spawn([*command, *options], directory / "log", cwd=directory, **as_user)
        wait_for_port(self.port, self._process)
        while self._is_starting():
            time.sleep(0.05)
        return self._process

    def _is_starting(self) -> bool:
        command = [str(postgres_program("pg_isready")), "-q", "-h", HOST, "-p", str(self.port), "-U", USER]
        if self._process is None or self._process.poll() is not None:
            raise ServerFailed(f"PostgreSQL ended; its log is {self._directory / 'log'}")
        return subprocess.run(command, check=False).returncode != 0

    def stop(self) -> None:
        if self._process is not None:
            stop(self._process, signal.SIGINT)
            self._process = None
