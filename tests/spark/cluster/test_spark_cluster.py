"""A real cluster, whose workers have no Quiver of their own: jobs run there, and survive the loss of a worker."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from blackbox.processes.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Fetch
from spark.cluster.standalone_cluster import StandaloneCluster, Worker, environment
from spark.lake_rows import lake_rows
from spark.topic_rows import sdk_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it"),
]
_SECONDS = 300.0
_PARTITIONS = 6
_ROWS = 450
"""In each partition: 9 MB, so that each is a task."""
_VALUE = b"x" * 20_000
_HELD_SECONDS = 4.0
_PASSED = 9
"""Fetches that are answered before the archive is held. A task needs two or three, and two run at a time."""


class Driver:
    """A process that starts a session on a cluster, with its JVM."""

    def __init__(self, place: Path, *command: str) -> None:
        self._errors = place / "driver.log"
        self._output = place / "driver.out"
        own = {name: value for name, value in environment().items() if name != "SPARK_LOCAL_IP"}
        with self._errors.open("wb") as errors, self._output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=errors, env=own, start_new_session=True)

    @property
    def log(self) -> str:
        return self._errors.read_text(errors="replace")[-6000:]

    def is_over(self) -> bool:
        return self.process.poll() is not None

    def output(self) -> str:
        """What a process has printed that ends well."""
        assert self.process.wait(_SECONDS) == 0, self.log
        return self._output.read_text()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path / "cluster") as started:
        yield started


def test_jobs_on_a_cluster_that_loses_a_worker(
    cluster: StandaloneCluster, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    """`quiver pipeline archive` in the middle of which a worker is lost; then a query and a job with what is left."""
    lake, held = tmp_path / "lake", HeldBroker(spark_broker)
    _make_topics(spark_broker)
    settings = [f"spark.pyspark.python={cluster.python}", "spark.executor.memory=600m"]
    options = ["--master", cluster.url, *(word for each in settings for word in ("--conf", each))]
    with held.proxy:
        source = ["--bootstrap", held.proxy.address, "--through-broker"]  # tasks could read the files that are here
        archive = ["archive", "big", "--lake", str(lake), *source, "-o", "json", *options]
        script = str(Path(__file__).with_name("cluster_jobs.py"))
        with Driver(tmp_path, sys.executable, script, spark_broker.address, str(tmp_path), *archive) as driver:
            try:
                cluster.await_workers(2)
                wait_until(lambda: held.is_held.is_set() or driver.is_over(), _SECONDS, "the archive is under way")
                assert not driver.is_over(), driver.log
                lost = wait_until(HeldWorker(cluster.workers).find, _SECONDS, "a worker that is held in a task")
                lost.kill()
            finally:
                held.is_let_go.set()
            summary, _, settings_used = driver.output().strip().rpartition("\n")

    assert json.loads(summary)["rows"] == _PARTITIONS * _ROWS
    assert lake_rows(lake) == sdk_rows(spark_broker, "big")
    begun = sum(worker.tasks("Running") for worker in cluster.workers)
    ended = sum(worker.tasks("Finished") for worker in cluster.workers)
    assert begun > ended >= _PARTITIONS, "what the worker was at was begun again"
    assert json.loads(settings_used) == [cluster.url, "127.0.0.1", "2"]
    assert _messages(spark_broker, "copied") == _messages(spark_broker, "keyed")
    assert {value for _, value in _messages(spark_broker, "last")} == {b"%d" % n for n in range(93, 100)}
    cluster.await_workers(1)


class HeldBroker:
    """A broker that answers nobody's fetches from the middle of an archive until it is let go."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.is_held, self.is_let_go = threading.Event(), threading.Event()
        self.proxy = TcpProxy(broker.address, self._choose, kinds=(Fetch,))

    def _choose(self, count: int) -> Fault:
        if count > _PASSED:
            self.is_held.set()
            self.is_let_go.wait(_SECONDS)
        return Fault.PASS


def _make_topics(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as client:
        for name, partitions in (("big", _PARTITIONS), ("keyed", 2), ("copied", 2)):
            client.topics.create(name, partitions=partitions)
        with client.producer("big") as producer:
            for partition in range(_PARTITIONS):
                producer.send_many([b"%d %s" % (n, _VALUE) for n in range(_ROWS)], partition=partition)
        with client.producer("keyed") as producer:
            producer.send_many([b"%d" % n for n in range(100)], [b"key-%d" % (n % 7) for n in range(100)])


class HeldWorker:
    """Finds a worker that has finished a task and is held in another: nothing of it changes for a while.

    A task that got all its fetches before the broker was held ends by itself, so being busy is not enough.
    """

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self._seen: dict[int, tuple[int, int]] = {}
        self._since: dict[int, float] = {}

    def find(self) -> Worker | None:
        now = time.monotonic()
        for number, worker in enumerate(self._workers):
            counts = worker.tasks("Finished"), worker.tasks("Running")
            if self._seen.get(number) != counts:
                self._seen[number], self._since[number] = counts, now
            elif 0 < counts[0] < counts[1] and now - self._since[number] > _HELD_SECONDS:
                return worker
        return None


def _messages(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((row.key, row.value) for row in sdk_rows(broker, topic)), key=repr)
