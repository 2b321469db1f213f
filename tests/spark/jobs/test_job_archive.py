"""The archive: the rows of the SDK in a lake, once each, whatever happens to a run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest, OffsetOutOfRange, TransactionConflict
from quiver_spark.jobs import archive
from quiver_spark.jobs.progress import Summary
from quiver_spark.lake.opening import open_lake
from quiver_spark.lake.reading import lake_frame
from quiver_spark.lake.table import Lake
from spark.lake_rows import lake_files, lake_rows, parquet_paths
from spark.topic_rows import (
    begin_transaction,
    end_transaction,
    mixed_topic,
    new_topic,
    publish,
    sdk_rows,
    spark_rows,
    without,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Archive = Callable[..., Summary]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def run(spark: "SparkSession", spark_broker: BrokerProcess, lake: Path) -> Archive:
    def run(topic: str, *, source: dict[str, object] | None = None, **settings: Any) -> Summary:
        place = {} if "path" in (source or {}) else {"bootstrap": spark_broker.address}
        return archive.run(spark, {"topics": topic, **place, **(source or {})}, lake, **settings)

    return run


def test_rows_are_those_of_the_sdk(
    run: Archive, spark: "SparkSession", spark_broker: BrokerProcess, lake: Path
) -> None:
    topic, aborted = mixed_topic(spark_broker)
    expected = without(sdk_rows(spark_broker, topic), aborted)
    summary = run(topic)
    assert lake_rows(lake) == expected
    assert spark_rows(lake_frame(spark, open_lake(lake))) == expected
    files = lake_files(lake)
    assert {(file.partition, file.date) for file in files} >= {(0, "2026-01-31")}
    assert (summary.rows, summary.files) == (len(expected), len(files))
    assert summary.bytes == sum((lake / file.path).stat().st_size for file in files)


def test_direct_reads_give_the_same(run: Archive, spark_broker: BrokerProcess, lake: Path) -> None:
    topic, aborted = mixed_topic(spark_broker)
    run(topic, source={"path": str(spark_broker.data_dir)})
    assert lake_rows(lake) == without(sdk_rows(spark_broker, topic), aborted)
    assert run(topic).rows == 0, "the broker has nothing beyond what its files had"


def _no_session() -> "SparkSession":
    raise AssertionError("there is nothing to archive: Spark need not be started")


def test_runs_go_on_where_the_last_one_ended(run: Archive, spark_broker: BrokerProcess, lake: Path) -> None:
    first, second = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, first, 50)
    assert run(first).rows == 50
    assert run(first).rows == 0
    for source in ({"topic": first}, {"topicPattern": f"{first}-.+"}):
        nothing = archive.run(_no_session, {**source, "bootstrap": spark_broker.address}, lake)
        assert (nothing.rows, bool(nothing.lines)) == (0, "topicPattern" in source)
    publish(spark_broker, first, 20, partition=1)
    publish(spark_broker, second, 30)
    with quiver.connect(spark_broker.address) as client:
        client.topics.add_partitions(first, 3)
    publish(spark_broker, first, 10, partition=2)
    assert run(f"{first},{second}").rows == 60
    assert lake_rows(lake) == sorted(sdk_rows(spark_broker, first) + sdk_rows(spark_broker, second))
    spans = [(file.topic, file.partition, file.start, file.stop) for file in lake_files(lake)]
    for topic, partition, start, stop in spans:
        before = [each[3] for each in spans if each[:2] == (topic, partition) and each[2] < start]
        assert start == max(before, default=0)
        assert stop > start


def test_messages_of_open_transactions_come_with_a_later_run(
    run: Archive, spark_broker: BrokerProcess, lake: Path
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 5)
    who = begin_transaction(spark_broker, topic, 0, "open")
    publish(spark_broker, topic, 5)
    assert run(topic).rows == 5
    end_transaction(spark_broker, "commit", who)
    assert run(topic).rows == 6
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)


def test_a_driver_that_dies_after_its_commit(
    run: Archive, spark_broker: BrokerProcess, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 100)
    commit = Lake.commit

    def fail_afterwards(self: Lake, *args: Any) -> None:
        commit(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "commit", fail_afterwards)
        with pytest.raises(KeyboardInterrupt):
            run(topic)
    assert run(topic).rows == 0
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)


def test_of_two_runs_at_once_one_is_refused(
    run: Archive, spark_broker: BrokerProcess, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 100)
    commit = Lake.commit
    others: list[int] = []

    def commit_second(self: Lake, *args: Any) -> None:
        if not others:
            others.append(0)
            others[0] = run(topic).rows
        commit(self, *args)

    monkeypatch.setattr(Lake, "commit", commit_second)
    with pytest.raises(TransactionConflict, match="run it again"):
        run(topic)
    assert others == [100]
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)
    assert set(parquet_paths(lake)) == {file.path for file in lake_files(lake)}, "the second run took its files along"


def test_small_files_are_joined(run: Archive, spark_broker: BrokerProcess, lake: Path) -> None:
    topic = new_topic(spark_broker)
    for _ in range(3):
        publish(spark_broker, topic, 40)
        run(topic)
    before = lake_files(lake)
    assert len(before) == 6
    publish(spark_broker, topic, 5)
    summary = run(topic, compact_small_files=True)
    assert summary.details["files_joined"] == 8
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)
    ends = [max(row.offset for row in sdk_rows(spark_broker, topic) if row.partition == n) + 1 for n in (0, 1)]
    assert [(file.partition, file.start, file.stop) for file in lake_files(lake)] == [(n, 0, ends[n]) for n in (0, 1)]
    assert DeltaTable(str(lake)).history(1)[0]["quiver"]["job"] == "optimize"
    publish(spark_broker, topic, 5)
    assert run(topic).rows == 5


JSON_VALUES = [
    b'{"id": 1, "at": "2026-01-31T12:00:00Z", "key": "k"}',
    b"not json",
    b'{"id": "seven"}',
    b'{"id": 4, "other": {"deep": [1, 2]}}',
]


def test_values_with_a_schema(run: Archive, spark: "SparkSession", spark_broker: BrokerProcess, lake: Path) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        producer.send_many(JSON_VALUES)
    run(topic, schema="id BIGINT, at TIMESTAMP, key STRING")
    assert lake_rows(lake) == sdk_rows(spark_broker, topic), "raw values stay"
    rows = lake_frame(spark, open_lake(lake)).orderBy("offset").select("id", "at", "json_key").collect()
    assert [row.id for row in rows] == [1, None, None, 4]
    assert [str(row.at) for row in rows] == ["2026-01-31 12:00:00", "None", "None", "None"]
    assert [row.json_key for row in rows] == ["k", None, None, None]
    publish(spark_broker, topic, 3)
    run(topic, compact_small_files=True)
    rows = lake_frame(spark, open_lake(lake)).orderBy("offset").select("id").collect()
    assert [row.id for row in rows] == [1, None, None, 4, None, None, None]
    with pytest.raises(InvalidRequest, match="column 'id' of type int64, not string"):
        run(topic, schema="id STRING")
    with pytest.raises(InvalidRequest, match="neither a file, nor DDL"):
        run(topic, schema="id WHATEVER")


def test_values_whose_schema_is_told_from_them(
    run: Archive, spark_broker: BrokerProcess, lake: Path, tmp_path: Path
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        producer.send_many([JSON_VALUES[0], JSON_VALUES[1], JSON_VALUES[3]])
    run(topic, infer_schema=True)
    table = DeltaTable(str(lake)).to_pyarrow_table().sort_by("offset")
    assert table.column("id").to_pylist() == [1, None, 4]
    assert table.column("other").to_pylist() == [None, None, {"deep": [1, 2]}]
    assert table.column("at").to_pylist() == ["2026-01-31T12:00:00Z", None, None]
    schema = tmp_path / "schema.ddl"
    schema.write_text("id BIGINT,\nnew DOUBLE\n")
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        producer.send(b'{"id": 5, "new": 0.5}')
    run(topic, schema=str(schema))
    table = DeltaTable(str(lake)).to_pyarrow_table().sort_by("offset")
    assert table.column("new").to_pylist() == [None, None, None, 0.5]


def test_messages_that_are_gone(run: Archive, spark_broker: BrokerProcess, lake: Path) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)
    run(topic)
    publish(spark_broker, topic, 20)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    publish(spark_broker, topic, 7)
    with pytest.raises(OffsetOutOfRange, match=f"of {topic}-0 are gone"):
        run(topic)
    assert run(topic, source={"failOnDataLoss": "false"}).rows == 7
    assert [row.offset for row in lake_rows(lake)][:20] == list(range(20))


def test_the_command(
    spark: "SparkSession", spark_broker: BrokerProcess, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 30)
    words = [topic, "--lake", str(lake), "--bootstrap", spark_broker.address, "--output", "json"]
    assert archive.main([*words, "--vacuum", "7d", "--compact", "--progress"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["job"], said["rows"], said["files_removed"]) == ("archive", 30, 0)
    assert archive.main(["no-such-topic", *words[1:]]) == 1
    assert "quiver: there is no topic 'no-such-topic'" in capsys.readouterr().err
    assert archive.main([topic, "--no-such-option"]) == 2
    assert archive.main([*words, "--compression", "best"]) == 1
    assert "is not one of zstd" in capsys.readouterr().err
