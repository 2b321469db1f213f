"""A real cluster, whose workers have no Quiver of their own: jobs run there, and survive the loss of a worker."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.broker_process import QUIVER, BrokerProcess, wait_until
from blackbox.tcp_proxy import Fault, TcpProxy
from quiver.protocol.messages import Fetch
from spark.lake_rows import lake_rows
from spark.standalone_cluster import StandaloneCluster, Worker, environment
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

    def is_running(self) -> bool:
        return self.process.poll() is None

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
    lake = tmp_path / "lake"
    _make_topics(spark_broker)
    _archive_and_lose_a_worker(cluster, spark_broker, tmp_path, lake)
    archived = sdk_rows(spark_broker, "big")
    assert len(archived) == _PARTITIONS * _ROWS
    assert lake_rows(lake) == archived

    script = Path(__file__).with_name("cluster_jobs.py")
    words = [cluster.url, str(cluster.python), spark_broker.address, str(lake), str(tmp_path)]
    with Driver(tmp_path, sys.executable, str(script), *words) as driver:
        told = json.loads(driver.output())
    assert told == {"shuffle": "2", "host": "127.0.0.1", "replayed": len(archived), "last": 7}
    assert _messages(spark_broker, "again") == _messages(spark_broker, "big")
    assert _messages(spark_broker, "copied") == _messages(spark_broker, "keyed")
    assert {row.value for row in lake_rows(tmp_path / "last")} == {b"%d" % n for n in range(93, 100)}


def _make_topics(broker: BrokerProcess) -> None:
    with quiver.connect(broker.address) as client:
        for name, partitions in (("big", _PARTITIONS), ("again", 2), ("keyed", 2), ("copied", 2)):
            client.topics.create(name, partitions=partitions)
        with client.producer("big") as producer:
            for partition in range(_PARTITIONS):
                producer.send_many([b"%d %s" % (n, _VALUE) for n in range(_ROWS)], partition=partition)
        with client.producer("keyed") as producer:
            producer.send_many([b"%d" % n for n in range(100)], [b"key-%d" % (n % 7) for n in range(100)])


def _archive_and_lose_a_worker(cluster: StandaloneCluster, broker: BrokerProcess, place: Path, lake: Path) -> None:
    """The broker answers nobody from the middle of the archive until the worker is gone."""
    is_held, is_lost = threading.Event(), threading.Event()

    def choose(count: int) -> Fault:
        if count > _PASSED:
            is_held.set()
            is_lost.wait(_SECONDS)
        return Fault.PASS

    with TcpProxy(broker.address, choose, kinds=(Fetch,)) as proxy:
        settings = [f"spark.pyspark.python={cluster.python}", "spark.executor.memory=600m"]
        options = ["--master", cluster.url, *(word for each in settings for word in ("--conf", each))]
        command = [str(QUIVER), "pipeline", "archive", "big", "--lake", str(lake), "-a", proxy.address, *options]
        with Driver(place, *command, "--output", "json") as driver:
            try:
                wait_until(lambda: is_held.is_set() or not driver.is_running(), _SECONDS, "the archive is under way")
                assert driver.is_running(), driver.log
                worker = wait_until(lambda: _busy(cluster.workers), _SECONDS, "a worker with a task behind it")
                worker.kill()
            finally:
                is_lost.set()
            summary = json.loads(driver.output())
    assert summary["rows"] == _PARTITIONS * _ROWS
    (survivor,) = (each for each in cluster.workers if each is not worker)
    assert survivor.tasks("Finished") + worker.tasks("Finished") >= _PARTITIONS
    assert survivor.tasks("Running") + worker.tasks("Running") > _PARTITIONS
    wait_until(lambda: cluster.alive() == 1, _SECONDS, "the master misses the worker")


def _busy(workers: list[Worker]) -> Worker | None:
    """One that has finished a task and is at another."""
    return next((each for each in workers if 0 < each.tasks("Finished") < each.tasks("Running")), None)


def _messages(broker: BrokerProcess, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    return sorted(((row.key, row.value) for row in sdk_rows(broker, topic)), key=repr)
