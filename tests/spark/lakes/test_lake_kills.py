"""Archives, optimize and vacuum that are killed in the middle, and an archive that is told to stop."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from quiver_spark.jobs import archive, vacuum
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.reading import lake_frame
from spark.lakes.object_store import BUCKET, Fault, ObjectStoreServer, use
from spark.topic_rows import Row, new_topic, publish, sdk_rows, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 300
"""For a driver on a machine that is busy with others."""
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStoreServer]:
    found = ObjectStoreServer()
    yield found
    found.close()


@pytest.fixture
def lake(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    use(server, monkeypatch)
    return f"s3://{BUCKET}/{tmp_path.name}"


def rows_of(spark: "SparkSession", lake: str) -> list[Row]:
    return spark_rows(lake_frame(spark, open_lake(lake)))


def test_a_driver_killed_before_its_commit(spark: "SparkSession", spark_broker: BrokerProcess, lake: str) -> None:
    """The files of the second round are there, and count for nothing."""
    topic = new_topic(spark_broker)
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        for partition in (0, 1):
            producer.send_many([bytes([number % 251]) * 2000 for number in range(9000)], partition=partition)
    source = {"topic": topic, "bootstrap": spark_broker.address}
    killed = subprocess.run(
        [sys.executable, str(HERE / "killed_archive.py"), json.dumps(source), lake],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert killed.returncode == -9, killed.stderr[-3000:]
    committed = len(rows_of(spark, lake))
    assert 0 < committed < 18_000
    assert archive.run(spark, source, lake).rows == 18_000 - committed
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)
    assert vacuum.run(lake, older_than="0s").files >= 1, "what the killed run wrote"
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)


def test_optimize_and_vacuum_killed_at_any_step(
    spark: "SparkSession", spark_broker: BrokerProcess, lake: str, server: ObjectStoreServer
) -> None:
    topic = new_topic(spark_broker)
    for _ in range(3):
        publish(spark_broker, topic, 20)
        archive.run(spark, {"topic": topic, "bootstrap": spark_broker.address}, lake)
    expected = sdk_rows(spark_broker, topic)
    for what, method, part, left in (
        ("optimize", "PUT", ".parquet", 6),
        ("optimize", "HEAD", ".parquet", 6),
        ("optimize", "PUT", "_delta_log/0", 2),  # the store carries it out, and nobody is there for the response
        ("vacuum", "POST", "?delete", 2),
    ):
        assert _killed_at(server, method, part, [what, lake]) == -signal.SIGKILL, (what, method, part)
        assert len(open_lake(lake).files()) == left, (what, method, part)
        assert rows_of(spark, lake) == expected
    vacuum.run(lake, older_than="0s")
    assert rows_of(spark, lake) == expected


def _killed_at(server: ObjectStoreServer, method: str, part: str, words: list[str]) -> int:
    """The status of a program that is killed when such a request arrives. The request is carried out."""
    with server.faults(Fault(method, part, "call", do=lambda: process.kill())):
        process = subprocess.Popen([sys.executable, str(HERE / "killed_rewrite.py"), *words])
        return process.wait(SECONDS)


def test_an_archive_that_follows(
    spark: "SparkSession", lake: str, start_broker: Callable[..., BrokerProcess]
) -> None:
    """Its broker is killed and comes back, and it is told to stop: the next run continues exactly there."""
    broker = start_broker("--native-port", str(free_port()))
    topic = new_topic(broker)
    publish(broker, topic, 30)
    words = [topic, "--lake", lake, "-a", broker.address, "--follow", "--every", "50ms", "--output", "json"]
    command = [sys.executable, "-m", "quiver", "pipeline", "archive", *words, "--timeout", "2s"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found: list[int] = []
    assert process.stdout is not None

    def read(lines: Iterator[str]) -> None:
        found.extend(json.loads(line)["rows"] for line in lines)

    reader = threading.Thread(target=read, args=(process.stdout,))
    reader.start()
    try:
        wait_until(lambda: sum(found) == 30, SECONDS, "the first commit")
        publish(broker, topic, 20)
        broker.restart(kill=True)
        publish(broker, topic, 10)
        wait_until(lambda: sum(found) == 60, SECONDS, "what was published while the broker was restarted")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, process.stderr.read()[-3000:] if process.stderr else ""
    finally:
        process.kill()
        reader.join()
    assert process.stderr is not None
    process.stderr.close()
    assert rows_of(spark, lake) == sdk_rows(broker, topic)
    publish(broker, topic, 5)
    assert archive.run(spark, {"topic": topic, "bootstrap": broker.address}, lake).rows == 5
    assert rows_of(spark, lake) == sdk_rows(broker, topic)
