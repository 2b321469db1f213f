"""beanstalkd with its binlog and greenstalk, which makes one round trip a command."""

import time
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.payload import Payload, age_seconds, paced, stamped
from benchmarks.roles import Watch
from benchmarks.servers.presence import absence, find_program
from benchmarks.servers.server import HOST, free_port, fresh_directory, spawn, wait_for_port
from benchmarks.subject import Subject


class Beanstalkd(Subject):
    name = "beanstalkd"
    client = "greenstalk; one round trip a command"
    durability = "binlog, synced every second"
    bulk_messages = 12_000
    both_messages = 12_000
    work_messages = 12_000

    def missing(self) -> str | None:
        return absence(program="beanstalkd", found=find_program("beanstalkd"), module="greenstalk")

    def start(self, scratch: Path) -> None:
        self.directory = scratch / self.name
        self._restart()
        with self._connect() as client:
            self.version = f"beanstalkd {client.stats()['version']}"

    def reset(self) -> None:
        self._restart()

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        client, bodies = self._connect(), islice(payload.endless(count), count)
        watch.start()
        for body in bodies:
            client.put(body)
        watch.stop()

    def consume(self, count: int, watch: Watch) -> None:
        client = self._connect()
        watch.start()
        for _ in range(count):
            client.delete(client.reserve())
        watch.stop()

    def work(self, count: int, batch: int, watch: Watch) -> None:
        """It has no batches."""
        self.consume(count, watch)

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        client, bodies, took = self._connect(), payload.endless(count), []
        watch.start()
        for _ in paced(count, rate):
            begin = time.monotonic()
            client.put(stamped(next(bodies)))
            took.append(time.monotonic() - begin)
        watch.stop()
        return took

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        client, ages = self._connect(), []
        watch.start()
        for _ in range(count):
            job = client.reserve()
            ages.append(age_seconds(job.body))
            client.delete(job)
        watch.stop()
        return ages

    def _restart(self) -> None:
        self.stop()
        self.port = free_port()
        directory = fresh_directory(self.directory)
        command = [
            str(find_program("beanstalkd")),
            "-l",
            HOST,
            "-p",
            str(self.port),
            "-b",
            str(directory),
            "-f",
            "1000",
        ]
        server = spawn(command, directory / "log")
        self._processes = [server]
        wait_for_port(self.port, server)

    def _connect(self) -> Any:
        import greenstalk

        return greenstalk.Client((HOST, self.port), encoding=None)
