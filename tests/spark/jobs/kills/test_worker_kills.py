"""Jobs whose Python workers or executors are killed while they read and write: no row is missing or double."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from blackbox.processes.socket_owner import owner_of
from blackbox.processes.tcp_proxy import Fault, TcpProxy, request_in
from quiver.protocol.messages import Fetch, Produce
from spark.jobs.kills.five_jobs import FiveJobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = bool(os.environ.get("QUIVER_LONG"))
_SECONDS = 300
_WORKER, _EXECUTOR = b"pyspark.daemon", b"CoarseGrainedExecutorBackend"
_WRITES = ("copy", "last", "files", "sql")


class KillingProxy:
    """Kills who reads a partition or writes to a topic for the first time. The broker gets the request all the same.

    `kind` is part of the command of what is killed: the worker itself, or the executor that has started it.
    """

    def __init__(self, broker: BrokerProcess, kind: bytes) -> None:
        self._kind = kind
        with quiver.connect(broker.address) as client:
            self._names = {client.topics.describe(name).id: name for name in client.topics.list()}
        self.killed: set[tuple[str, str]] = set()
        self.proxy = TcpProxy(broker.address, self._choose, kinds=(Fetch, Produce))

    def _choose(self, count: int) -> Fault:
        request = request_in(self.proxy.requests[-1])
        if isinstance(request, Produce):
            what = ("write", self._names.get(request.topic_id, ""))
        else:
            assert isinstance(request, Fetch)
            part = request.parts[0]
            what = (f"read {part.partition}", self._names[part.topic_id])
        if what not in self.killed and (sender := self._sender()) is not None:
            self.killed.add(what)
            os.kill(sender, signal.SIGKILL)
        return Fault.PASS

    def _sender(self) -> int | None:
        """None for the driver, which asks too."""
        found = owner_of(self.proxy.client_port)
        while found not in (None, 0, 1, os.getpid()):
            assert found is not None
            if self._kind in Path(f"/proc/{found}/cmdline").read_bytes():
                return found
            found = int(Path(f"/proc/{found}/stat").read_text().rpartition(")")[2].split()[1])
        return None

    def has_killed_all(self, jobs: FiveJobs) -> bool:
        written = {name for how, name in self.killed if how == "write"}
        read = {name for how, name in self.killed if how != "write"}
        return written >= {f"{jobs.name}-{name}" for name in _WRITES} and read >= {jobs.name, f"{jobs.queue}.dlq"}


def test_workers_that_are_killed(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    jobs = FiveJobs(tmp_path, "workers")
    jobs.prepare(spark_broker)
    killing = KillingProxy(spark_broker, _WORKER)
    with killing.proxy:
        jobs.run(spark, killing.proxy.address)
    assert killing.has_killed_all(jobs), killing.killed
    jobs.check(spark_broker)


@pytest.mark.long
@pytest.mark.skipif(not LONG, reason="QUIVER_LONG=1 runs it: two executors of their own are started again and again")
def test_executors_that_are_killed(quick_spark: None, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    jobs = FiveJobs(tmp_path, "executors")
    jobs.prepare(spark_broker)
    killing = KillingProxy(spark_broker, _EXECUTOR)
    program = [sys.executable, str(Path(__file__).with_name("five_jobs.py"))]
    with killing.proxy:
        words = [killing.proxy.address, str(tmp_path), jobs.name, "local-cluster[2,1,1024]"]
        own = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        done = subprocess.run([*program, *words], capture_output=True, text=True, timeout=_SECONDS, env=own)
    assert done.returncode == 0, done.stderr[-4000:]
    assert killing.has_killed_all(jobs), killing.killed
    jobs.check(spark_broker)
