"""What is recorded of a broker and of its database while a run goes on."""

import asyncio
import os
import threading
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, cpu_seconds

SCHEMA = "soak"
_TABLES = """
select relname as name, pg_total_relation_size(relid) as bytes, n_live_tup as live, n_dead_tup as dead
from pg_stat_user_tables where schemaname = $1
"""


class Sample(msgspec.Struct, kw_only=True):
    seconds: float
    published: int
    """Messages since the start of the broker."""
    memory_bytes: int
    """What the broker has allocated: pages of files are not in it."""
    resident_bytes: int
    open_files: int
    cpu_seconds: float
    store_bytes: int
    """The data directory, or the tables with their indexes and large values."""
    live_rows: int = 0
    dead_rows: int = 0
    tables: dict[str, int] = msgspec.field(default_factory=dict)
    """Bytes of each table."""


class Sampler:
    """A with-block that takes a sample at every interval, and one at its end."""

    def __init__(self, broker: Broker, database: str | None, interval_seconds: float) -> None:
        self._broker = broker
        self._database = database
        self._interval_seconds = interval_seconds
        self._began = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.samples: list[Sample] = []
        self.error: BaseException | None = None

    def __enter__(self) -> "Sampler":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        if error is None and self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            self.samples.append(self._sample())
            while not self._done.wait(self._interval_seconds):
                self.samples.append(self._sample())
            self.samples.append(self._sample())
        except BaseException as error:
            self.error = error

    def _sample(self) -> Sample:
        status = dict(line.split(":", 1) for line in _read(self._broker.pid, "status").splitlines() if ":" in line)
        sample = Sample(
            seconds=round(time.monotonic() - self._began, 1),
            published=self._published(),
            memory_bytes=_kib(status["RssAnon"]),
            resident_bytes=_kib(status["VmRSS"]),
            open_files=len(os.listdir(f"/proc/{self._broker.pid}/fd")),
            cpu_seconds=cpu_seconds([self._broker.pid]),
            store_bytes=_directory_bytes(self._broker.data_dir),
        )
        for name, size, live, dead in asyncio.run(_tables(self._database)) if self._database else ():
            sample.tables[name] = size
            sample.live_rows, sample.dead_rows = sample.live_rows + live, sample.dead_rows + dead
        if self._database:
            sample.store_bytes = sum(sample.tables.values())
        return sample

    def _published(self) -> int:
        url = f"http://{HOST}:{self._broker.http_port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as response:
            lines = response.read().decode().splitlines()
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in lines if line.startswith(_COUNTER))


_COUNTER = "quiver_published_messages_total{"


async def _tables(address: str) -> list[Any]:
    import asyncpg

    connection = await asyncpg.connect(address, timeout=30)
    try:
        rows: list[Any] = await connection.fetch(_TABLES, SCHEMA)
        return rows
    finally:
        await connection.close()


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _kib(text: str) -> int:
    return int(text.split()[0]) * 1024


def _directory_bytes(directory: Path) -> int:
    """Files may be removed meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total
