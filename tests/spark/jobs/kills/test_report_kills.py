"""Jobs that report, while their broker is killed and comes back: they say the same as of one that stayed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quiver
from blackbox.callers.http_queue import HttpQueue
from blackbox.processes.broker_process import BrokerProcess, free_port
from blackbox.processes.tcp_proxy import Fault, TcpProxy, request_in
from quiver.protocol.messages import DescribeTopic, Fetch, GetMetadata, ListOffsets
from quiver_spark.jobs import archive, audit, dead_letters, diff, latency, lineage, optimize, profile, vacuum
from quiver_spark.jobs.progress import Summary
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.reading import lake_frame
from spark.topic_rows import new_topic, sdk_rows, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KINDS = (GetMetadata, DescribeTopic, ListOffsets, Fetch)
_MESSAGES, _DEAD = 500, 7
_OF_TIME = ("seconds", "rows_per_second")


class RestartingBroker:
    """A broker that is killed by the first request of each kind, with the request, and is started again."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._broker = broker
        self.killed_by: set[type] = set()
        self.proxy = TcpProxy(broker.address, self._choose, kinds=_KINDS)

    def _choose(self, count: int) -> Fault:
        kind = type(request_in(self.proxy.requests[-1]))
        if kind in self.killed_by:
            return Fault.PASS
        self.killed_by.add(kind)
        self._broker.restart(kill=True)
        return Fault.CUT_BEFORE


class Reports:
    """Two topics that differ, one that has dead letters, and the jobs over them."""

    def __init__(self, spark: "SparkSession", broker: BrokerProcess) -> None:
        self._spark = spark
        self.topics = new_topic(broker), new_topic(broker)
        with quiver.connect(broker.address) as client:
            for number, topic in enumerate(self.topics):
                values = [b'{"id": %d, "name": "n%d"}' % (n, n % 9) for n in range(_MESSAGES + number)]
                headers = {"quiver-lineage": b"elsewhere/0/17"}
                with client.producer(topic) as producer:
                    producer.send_many(values, [b"k%d" % (n % 7) for n in range(len(values))], headers=headers)
        queue = HttpQueue(broker, partitions=1)
        queue.publish(*(str(number) for number in range(_DEAD)))
        for message in queue.receive_all(_DEAD):
            queue.settle("reject", message, reason="no good")
        self.queue = queue.topic

    def run(self, job: str, bootstrap: str) -> dict[str, Any]:
        """What it says."""
        topics = (*self.topics, self.queue)
        one, other, queue = ({"topic": topic, "bootstrap": bootstrap, "localFiles": "false"} for topic in topics)
        runs: dict[str, Callable[[], Summary]] = {
            "profile": lambda: profile.run(self._spark, one),
            "diff": lambda: diff.run(self._spark, one, other, by="offset"),
            "lineage": lambda: lineage.run(self._spark, one, message="elsewhere/0/17"),
            "dead-letters report": lambda: dead_letters.report(self._spark, queue),
            "audit": lambda: audit.run(self._spark, one),
        }
        summary = runs[job]()
        return {name: value for name, value in summary.record().items() if name not in _OF_TIME}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    place = tmp_path_factory.mktemp("reports") / "data"
    with BrokerProcess(place, "--native-port", str(free_port())) as process:
        yield process


@pytest.fixture(scope="module")
def reports(spark: "SparkSession", broker: BrokerProcess) -> Reports:
    return Reports(spark, broker)


@pytest.mark.parametrize("job", ["profile", "diff", "lineage", "dead-letters report", "audit"])
def test_a_report_whose_broker_is_killed_by_its_requests(broker: BrokerProcess, reports: Reports, job: str) -> None:
    expected = reports.run(job, broker.address)
    killing = RestartingBroker(broker)
    with killing.proxy:
        found = reports.run(job, killing.proxy.address)
    assert {DescribeTopic, Fetch} <= killing.killed_by
    assert found == expected
    assert expected["rows"] >= _DEAD


def test_an_archive_whose_broker_is_killed_by_its_requests(
    spark: "SparkSession", broker: BrokerProcess, reports: Reports, tmp_path: Path
) -> None:
    """The run goes on by itself, and the lake has each message once."""
    topic, killing = reports.topics[0], RestartingBroker(broker)
    source = {"topic": topic, "bootstrap": killing.proxy.address, "localFiles": "false"}
    with killing.proxy:
        assert archive.run(spark, source, tmp_path / "lake").rows == _MESSAGES
    assert {DescribeTopic, Fetch} <= killing.killed_by
    rows = spark_rows(lake_frame(spark, open_lake(tmp_path / "lake")))
    assert rows == sdk_rows(broker, topic)


def test_jobs_over_files_whose_broker_is_killed(spark: "SparkSession", broker: BrokerProcess, tmp_path: Path) -> None:
    """Between the plan of a job and its work: latency reads the files of a broker, the others those of a lake."""
    queue = HttpQueue(broker, partitions=2)
    queue.publish(*(str(number) for number in range(20)))
    queue.settle_many("ack", queue.receive_all(20))
    source = {"topic": queue.topic, "path": str(broker.data_dir)}

    def after_a_kill() -> "SparkSession":
        broker.restart(kill=True)
        return spark

    totals = [latency.run(start, source, tmp_path / "out").details["totals"] for start in (spark, after_a_kill)]
    assert totals[0] == totals[1]
    assert totals[0][0]["acks"] == 20

    topic, lake = {"topic": queue.topic, "bootstrap": broker.address}, tmp_path / "lake"
    for _ in range(2):
        archive.run(spark, topic, lake)
        queue.publish("more")
    archive.run(spark, topic, lake)

    def without_a_broker() -> "SparkSession":
        broker.kill()
        return spark

    assert optimize.run(without_a_broker, lake).details["files_replaced"] > 2
    assert vacuum.run(lake, older_than="0s").files > 2
    broker.start()
    assert diff.run(after_a_kill, topic, lake=lake, by="offset").details["is_same"]
