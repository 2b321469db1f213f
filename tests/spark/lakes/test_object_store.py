"""Lakes in an object store: the same rows as in a directory, whatever the store does."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import QuiverError, TransactionConflict
from quiver_spark.jobs import archive, audit, optimize, replay, vacuum
from quiver_spark.jobs.progress import Summary
from quiver_spark.lake.opening import lake_settings, open_lake
from quiver_spark.lake.reading import lake_frame
from spark.lakes.object_store import BUCKET, Fault, ObjectStoreServer, use
from spark.topic_rows import Row, new_topic, publish, sdk_rows, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT = "_delta_log/0"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStoreServer]:
    found = ObjectStoreServer()
    yield found
    found.close()


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", f"sqlite:///{tmp_path}/catalog.sqlite")
    return str(request.param)


@pytest.fixture
def lake(server: ObjectStoreServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    use(server, monkeypatch)
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def run(spark: "SparkSession", spark_broker: BrokerProcess, lake: str) -> Callable[..., Summary]:
    def run(topic: str, kind: str = "delta", **words: Any) -> Summary:
        settings = lake_settings(kind, catalog="tests" if kind == "iceberg" else None)
        source = {"topic": topic, "bootstrap": spark_broker.address}
        return archive.run(spark, source, lake, settings=settings, **words)

    return run


def rows_of(spark: "SparkSession", lake: str) -> list[Row]:
    return spark_rows(lake_frame(spark, open_lake(lake)))


def test_every_job_works_there(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    kind: str,
    server: ObjectStoreServer,
) -> None:
    topic, again = new_topic(spark_broker), new_topic(spark_broker)
    for part in range(2):
        publish(spark_broker, topic, 30)
        assert run(topic, kind).rows == 30
        assert run(topic, kind).rows == 0, part
    expected = sdk_rows(spark_broker, topic)
    assert rows_of(spark, lake) == expected
    source = {"topic": topic, "bootstrap": spark_broker.address}
    assert audit.run(spark, source, lake=lake, deep=True).is_clean
    done = optimize.run(spark, lake, topics=[topic], sort_by=["key"])
    assert (done.details["files_replaced"], done.files, done.rows) == (4, 2, 60)
    assert rows_of(spark, lake) == expected
    found = audit.run(spark, source, lake=lake, deep=True)
    assert found.is_clean, found.findings
    assert vacuum.run(lake, older_than="0s", dry_run=True).files >= 4
    assert vacuum.run(lake, older_than="0s").files >= 4
    there = {path for _, path in ((0, info.path) for info in server.files.get_file_info(_all(lake)))}
    assert len([path for path in there if path.endswith(".parquet")]) == 2
    replay.run(spark, {"topic": topic}, again, lake=lake, to_bootstrap=spark_broker.address, run_id=topic)
    assert [row.value for row in sdk_rows(spark_broker, again)] == [row.value for row in expected]
    replay.run(spark, {"topic": topic}, again, lake=lake, to_bootstrap=spark_broker.address, run_id=topic)
    assert len(sdk_rows(spark_broker, again)) == 60, "its plan is in the lake: nothing is written twice"


def _all(lake: str) -> Any:
    from pyarrow import fs

    return fs.FileSelector(lake.removeprefix("s3://"), recursive=True)


def test_a_store_that_is_slow_refuses_and_loses_responses(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    server: ObjectStoreServer,
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 20)
    run(topic)
    publish(spark_broker, topic, 20)
    faults = (
        Fault("PUT", ".parquet", "error", times=2),
        Fault("PUT", ".parquet", "lost"),
        Fault("PUT", ".parquet", "late"),
        Fault("PUT", COMMIT, "lost"),
        Fault("GET", COMMIT, "error"),
        Fault("HEAD", ".parquet", "slow"),
    )
    with server.faults(*faults):
        assert run(topic).rows == 20
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic), "a commit that was repeated counts once"
    assert vacuum.run(lake, older_than="0s").files == 0, "and its files were kept"
    publish(spark_broker, topic, 20)
    with server.faults(Fault("PUT", COMMIT, "error", times=1000)), pytest.raises(QuiverError, match=lake):
        run(topic)
    assert run(topic).rows == 20
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)


def test_an_iceberg_lake_in_a_store_that_refuses_and_loses_responses(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    server: ObjectStoreServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__TESTS__URI", f"sqlite:///{tmp_path}/catalog.sqlite")
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 20)
    run(topic, "iceberg")
    publish(spark_broker, topic, 20)
    metadata = "/metadata/"
    with server.faults(*(Fault("PUT", part, kind) for part in (".parquet", metadata) for kind in ("error", "lost"))):
        assert run(topic, "iceberg").rows == 20
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)
    publish(spark_broker, topic, 20)
    with server.faults(Fault("PUT", metadata, "error", times=1000)), pytest.raises(QuiverError, match=lake):
        run(topic, "iceberg")
    assert run(topic, "iceberg").rows == 20
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)


@pytest.mark.parametrize("chosen", ["when_required", "when_supported"])
def test_how_bodies_are_signed(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    server: ObjectStoreServer,
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
) -> None:
    """With checksums after the body, no SHA-256 of each part is computed (docs/lake.md)."""
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", chosen)
    server.signed.clear()
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 30)
    assert run(topic).rows == 30
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)
    assert any(each.startswith("STREAMING-UNSIGNED") for each in server.signed) == (chosen == "when_supported")


def test_a_worker_that_is_killed(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    server: ObjectStoreServer,
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 40)
    run(topic)
    publish(spark_broker, topic, 40)
    with server.faults(Fault("PUT", ".parquet", "call", do=lambda: _kill_workers(spark))):
        assert run(topic).rows == 40, "Spark repeats the task"
    assert rows_of(spark, lake) == sdk_rows(spark_broker, topic)


def _kill_workers(spark: "SparkSession") -> None:
    """The processes that run the tasks; their parent, which Spark's JVM has started, starts new ones."""
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    for daemon in _children(jvm):
        for worker in _children(daemon):
            os.kill(worker, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(each) for each in (task / "children").read_text().split()]
    return found


def test_two_archives_at_once(
    run: Callable[..., Summary],
    spark: "SparkSession",
    spark_broker: BrokerProcess,
    lake: str,
    kind: str,
) -> None:
    topic, other = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 20)
    publish(spark_broker, other, 20)
    run(topic, kind)
    publish(spark_broker, topic, 20)

    def attempt(name: str) -> int:
        try:
            return run(name, kind).rows
        except TransactionConflict:
            return 0

    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(attempt, (topic, topic, other)))
    assert done[2] == 20, "archives of other topics do not conflict"
    assert sum(done[:2]) == 20
    assert rows_of(spark, lake) == sorted(
        sdk_rows(spark_broker, topic) + sdk_rows(spark_broker, other), key=lambda row: row[:3]
    )
    assert len(open_lake(lake).files()) == 6
