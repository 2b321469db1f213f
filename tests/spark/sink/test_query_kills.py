"""Drivers, Python workers and brokers die in the middle of queries with the quiver sink and the Parquet sink.

Every row is there once in the end.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import quiver
from blackbox.cluster.replicated_nodes import Nodes
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from etcd_cluster import program, running_etcd
from spark.sink.topic_copies import Copy
from spark.topic_rows import new_topic, publish, sdk_rows

_ROWS = 40
_SECONDS = 120


class Copies:
    """A topic that is copied into another one and into Parquet files."""

    def __init__(self, broker: BrokerProcess | Nodes, place: Path) -> None:
        self.broker, self.place = broker, place
        self.source, self.target = new_topic(broker, partitions=1), new_topic(broker, partitions=3)
        publish(broker, self.source, _ROWS)
        self.topic = Copy(broker.address, self.source, place / "topic", self.target)
        self.parquet = Copy(broker.address, self.source, place / "parquet")

    def in_topic(self) -> list[bytes]:
        """What readers of committed messages get."""
        return sorted(row.value or b"" for row in sdk_rows(self.broker, self.target))

    def in_parquet(self, spark: SparkSession) -> list[bytes]:
        files = spark.read.schema("value BINARY").parquet(str(self.parquet.files))
        return sorted(bytes(row.value) for row in files.collect())

    def check(self, spark: SparkSession, times: int = 1) -> None:
        """Every row is in both, as often as it was published, and no transaction is left open."""
        expected = sorted([b"v%d" % number for number in range(_ROWS)] * times)
        assert self.in_topic() == expected
        assert self.in_parquet(spark) == expected
        with quiver.connect(self.broker.address) as client:
            found = client.transactions.list()
        assert [each for each in found if each.state == "open" and self.target in dict(each.partitions)] == []


class Driver:
    """The process of query_driver.py, with the JVM that belongs to it."""

    def __init__(self, copies: Copies) -> None:
        self.copies = copies
        self.log = copies.place / "driver.log"
        here = Path(__file__).parent
        words = [copies.broker.address, copies.source, copies.target, str(copies.place)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(here / "query_driver.py"), *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(here.parents[1])},
                start_new_session=True,
            )

    def has_met(self, copy: Copy, fault: str) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-4000:]
        return copy.met(fault)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module", autouse=True)
def driver(
    quick_spark: None, spark_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """Starts while the other tests run. Both of its queries stop in the middle of their second micro-batch."""
    copies = Copies(spark_broker, tmp_path_factory.mktemp("driver"))
    copies.topic.fault("written.hold")
    copies.parquet.fault("read.hold")
    driver = Driver(copies)
    yield driver
    if driver.process.poll() is None:
        driver.kill()


def _end(query: StreamingQuery) -> None:
    assert query.awaitTermination(_SECONDS)


def _wait(copy: Copy, query: StreamingQuery, fault: str) -> None:
    def has_met() -> bool:
        assert query.isActive, query.exception()
        return copy.met(fault)

    wait_until(has_met, _SECONDS, fault)


def test_workers_that_are_killed(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    """While they read and when they have written: Spark tries the task again. While they plan: the query fails."""
    copies = Copies(spark_broker, tmp_path)
    copies.topic.fault("read.kill", "written.raise", "written.kill")
    copies.parquet.fault("plan.kill", "read.kill")
    topic, parquet = copies.topic.start(spark), copies.parquet.start(spark)
    with pytest.raises(StreamingQueryException):
        _end(parquet)
    _end(copies.parquet.start(spark))
    _end(topic)
    assert all(copies.topic.met(fault) for fault in ("read.kill", "written.raise", "written.kill"))
    assert all(copies.parquet.met(fault) for fault in ("plan.kill", "read.kill"))
    copies.check(spark)


def test_a_broker_that_is_killed(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    broker = start_broker("--native-port", str(free_port()))
    copies = Copies(broker, tmp_path / "copies")
    topic, parquet = copies.topic, copies.parquet

    # It is back before their timeout while tasks read: they go on. A second attempt would meet another fault.
    topic.fault("read.hold", "written.hold")
    parquet.fault("read.hold")
    queries = [copy.start(spark, tasks=1) for copy in (topic, parquet)]
    _wait(topic, queries[0], "read.hold")
    _wait(parquet, queries[1], "read.hold")
    broker.kill()
    for copy in (topic, parquet):
        copy.fault("read.raise", "read.go")
    broker.start()
    _end(queries[1])
    _wait(topic, queries[0], "written.hold")
    for copy in (topic, parquet):
        assert not copy.met("read.raise")
        (copy.faults / "read.raise").unlink()

    # It is back before the timeout of a commit, and has aborted the rows: they are written again.
    broker.kill()
    topic.fault("written.go")
    broker.start()
    _end(queries[0])
    copies.check(spark)

    # It stays away.
    publish(broker, copies.source, _ROWS)
    (topic.faults / "written.go").unlink()
    topic.fault("written.hold")
    query = topic.start(spark, timeout="2s")
    _wait(topic, query, "written.hold")
    broker.kill()
    topic.fault("written.go")
    for failing in (query, parquet.start(spark, timeout="200ms")):
        with pytest.raises(StreamingQueryException, match=r"is the broker running there \(option bootstrap\)"):
            _end(failing)

    broker.start()
    for copy in (topic, parquet):
        _end(copy.start(spark))
    copies.check(spark, times=2)


def test_workers_of_the_broker_that_are_killed(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """One while a task reads, the other when the rows are stored in partitions of both and nothing is committed."""
    broker = start_broker("--workers", "2")
    copies = Copies(broker, tmp_path / "copies")
    copies.topic.fault("read.hold", "written.hold")
    queries = [copy.start(spark, tasks=1) for copy in (copies.topic, copies.parquet)]
    for worker, fault in enumerate(("read", "written")):
        _wait(copies.topic, queries[0], f"{fault}.hold")
        broker.kill_worker(worker)
        copies.topic.fault(f"{fault}.go")
    for query in queries:
        _end(query)
    copies.check(spark)
    for through_files in ("true", "false"):
        options = {"topic": copies.target, "bootstrap": broker.address, "localFiles": through_files}
        rows = spark.read.format("quiver").options(**options).load()
        assert rows.count() == _ROWS, "of the headers of frames"
        assert sorted(bytes(row.value) for row in rows.collect()) == copies.in_topic()


@pytest.mark.skipif(program() is None, reason="etcd is not installed (scripts/system-packages gets it)")
def test_leaders_of_a_cluster_that_are_killed(
    spark: SparkSession, start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """One while a task reads what it leads, the next one when rows are stored in what it leads and not committed."""
    with running_etcd() as etcd:
        cluster = Nodes("spark", etcd, tmp_path, start_broker)
        copies = Copies(cluster, tmp_path / "copies")
        copies.topic.fault("read.hold", "written.hold")
        queries = [copy.start(spark, tasks=1) for copy in (copies.topic, copies.parquet)]
        asked = 1
        for topic, fault in ((copies.source, "read"), (copies.target, "written")):
            _wait(copies.topic, queries[0], f"{fault}.hold")
            leader = cluster.leader(topic, 0, asked=asked)
            cluster.nodes[leader].kill()
            copies.topic.fault(f"{fault}.go")
            cluster.nodes[leader].start(wait=False)
            asked = next(number for number in cluster.nodes if number != leader)
        for query in queries:
            _end(query)
        copies.check(spark)


def test_a_driver_that_is_killed(spark: SparkSession, driver: Driver) -> None:
    """It has written and not committed rows; another one goes on with its checkpoints."""
    copies = driver.copies
    for copy, fault in ((copies.topic, "written.hold"), (copies.parquet, "read.hold")):
        wait_until(lambda copy=copy, fault=fault: driver.has_met(copy, fault), _SECONDS, fault)
    driver.kill()
    assert len(copies.in_topic()) == len(copies.in_parquet(spark)) == 20
    for query in [copy.start(spark) for copy in (copies.topic, copies.parquet)]:
        _end(query)
    copies.check(spark)
