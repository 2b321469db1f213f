"""Compaction on Spark against a dict."""

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest
from quiver_spark.jobs import archive, compact
from spark.lake_rows import lake_rows, parquet_paths
from spark.topic_rows import Row, new_topic, publish, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Table = dict[bytes, Row]


def keyed_topic(broker: BrokerProcess) -> str:
    """Keys of which some moved to another partition, some were deleted, and messages without a key."""
    topic, chance = new_topic(broker), random.Random(7)
    with quiver.connect(broker.address) as client:
        for word in (b"old", b"new"):
            with client.producer(topic) as producer:
                for number in range(300):
                    key = b"k%d" % chance.randrange(60)
                    producer.send(None if number % 11 == 0 else word + b"%d" % number, key)
                producer.send_many([b"no key"] * 5)
            if word == b"old":
                client.topics.add_partitions(topic, 5)
    return topic


def last(rows: list[Row], *, tombstones: bool) -> Table:
    """The model: what a dict holds after all messages were put into it in the order they were stored."""
    table: Table = {}
    for row in sorted(rows, key=lambda row: (row.append_time_ms, row.partition, row.offset)):
        if row.key is not None:
            table[row.key] = row
    return {key: row for key, row in table.items() if tombstones or row.value is not None}


def kept(rows: Table) -> dict[bytes, tuple[object, ...]]:
    return {key: (row.value, row.headers, row.timestamp_ms, row.priority) for key, row in rows.items()}


def by_key(rows: list[Row]) -> Table:
    table = {row.key: row for row in rows if row.key is not None}
    assert len(table) == len(rows), "every key once"
    return table


@pytest.mark.parametrize("tombstones", [False, True])
def test_into_a_topic(spark: "SparkSession", spark_broker: BrokerProcess, tombstones: bool) -> None:
    topic = keyed_topic(spark_broker)
    source, target = {"topic": topic, "bootstrap": spark_broker.address}, f"{topic}-last"
    expected = last(sdk_rows(spark_broker, topic), tombstones=tombstones)
    summary = compact.run(spark, source, to=target, keep_tombstones=tombstones)
    assert summary.rows == len(expected)
    assert kept(by_key(sdk_rows(spark_broker, target))) == kept(expected)
    with quiver.connect(spark_broker.address) as client:
        assert len(client.topics.describe(target).offsets) == 5
    compact.run(spark, source, to=target, keep_tombstones=tombstones)
    assert len(sdk_rows(spark_broker, target)) == len(expected), "the same messages are written once"
    publish(spark_broker, topic, 10)
    compact.run(spark, source, to=target, keep_tombstones=tombstones)
    assert len(sdk_rows(spark_broker, target)) > len(expected)


def test_into_a_lake(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, lake = keyed_topic(spark_broker), tmp_path / "lake"
    source = {"topic": topic, "bootstrap": spark_broker.address}
    for _ in range(2):
        expected = last(sdk_rows(spark_broker, topic), tombstones=False)
        summary = compact.run(spark, source, lake=lake)
        assert (summary.rows, summary.files) == (len(expected), 5)
        assert by_key(lake_rows(lake)) == expected
        publish(spark_broker, topic, 10)
    assert len(parquet_paths(lake)) == 10, "replaced files are there until they are vacuumed"
    with pytest.raises(InvalidRequest, match="has the last values of"):
        archive.run(spark, source, lake)


def test_by_direct_reads(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = keyed_topic(spark_broker)
    compact.run(spark, {"topic": topic, "path": str(spark_broker.data_dir)}, lake=tmp_path, keep_tombstones=True)
    assert by_key(lake_rows(tmp_path)) == last(sdk_rows(spark_broker, topic), tombstones=True)


def test_what_cannot_be_compacted(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = new_topic(spark_broker)
    source = {"topic": topic, "bootstrap": spark_broker.address}
    for target in ({}, {"to": "x", "lake": tmp_path}):
        with pytest.raises(InvalidRequest, match="one of them"):
            compact.run(spark, source, **target)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="name one topic"):
        compact.run(spark, {"topics": "a,b"}, to="x")
    publish(spark_broker, topic, 5)
    archive.run(spark, source, tmp_path / "lake")
    with pytest.raises(InvalidRequest, match="has the archive of"):
        compact.run(spark, source, lake=tmp_path / "lake")


def test_the_command(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 30)
    words = [topic, "--bootstrap", spark_broker.address, "--output", "json"]
    assert compact.main([*words, "--lake", str(tmp_path), "--progress"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["messages_read"]) == (7, 30)
    assert compact.main(words) == 1
    assert "say where the last values go" in capsys.readouterr().err
