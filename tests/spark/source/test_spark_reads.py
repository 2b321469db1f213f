"""Batch reads agree with the SDK row by row, for every option and every kind of message."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from quiver_spark.source.catalogue import plan
from quiver_spark.source.frames import read_slice
from quiver_spark.source.options import read_options
from spark.topic_rows import (
    Row,
    begin_transaction,
    end_transaction,
    mixed_topic,
    new_topic,
    publish,
    read_rows,
    sdk_rows,
    spark_rows,
    without,
)

Load = Callable[..., DataFrame]
Read = Callable[..., list[Row]]


@pytest.fixture
def load(spark: SparkSession, spark_broker: BrokerProcess) -> Load:
    def load(topic: str | None = None, schema: str | None = None, **options: Any) -> DataFrame:
        words = {"bootstrap": spark_broker.address, **options} | ({"topic": topic} if topic else {})
        reader = spark.read.format("quiver").options(**words)
        return (reader.schema(schema) if schema else reader).load()

    return load


@pytest.fixture
def read(spark_broker: BrokerProcess) -> Read:
    """The same read without Spark, where what counts is not how Spark is told."""
    return partial(read_rows, bootstrap=spark_broker.address)


@pytest.fixture(scope="module")
def mixed(spark_broker: BrokerProcess) -> tuple[str, list[Row], set[tuple[int, int]]]:
    """A topic, its committed rows as the SDK gives them, and what was aborted."""
    topic, aborted = mixed_topic(spark_broker)
    return topic, without(sdk_rows(spark_broker, topic), aborted), aborted


def test_every_column_of_every_row(load: Load, mixed: tuple[str, list[Row], set[Any]]) -> None:
    topic, rows, aborted = mixed
    assert len(aborted) == 12
    assert {row.priority for row in rows} == {"critical", "normal", "low", "background"}
    assert spark_rows(load(topic)) == rows
    assert spark_rows(load(topic, minPartitions=13)) == rows
    assert load(topic, minPartitions=13).rdd.getNumPartitions() >= 13


def test_the_same_rows_from_files(
    spark: SparkSession, spark_broker: BrokerProcess, mixed: tuple[str, list[Row], set[Any]]
) -> None:
    topic, committed = mixed[:2]
    frame = spark.read.format("quiver").option("topic", topic).load(str(spark_broker.data_dir))
    assert spark_rows(frame) == committed
    assert frame.where("key = CAST('key-3' AS BINARY) AND partition = 0").count() == len(
        [row for row in committed if row.key == b"key-3" and row.partition == 0]
    )


def test_uncommitted_rows_on_request(
    load: Load, mixed: tuple[str, list[Row], set[Any]], spark_broker: BrokerProcess
) -> None:
    topic, rows, aborted = mixed
    found = spark_rows(load(topic, isolation="read_uncommitted"))
    assert {(row.partition, row.offset) for row in found} - {(row.partition, row.offset) for row in rows} == aborted
    assert without(found, aborted) == rows
    assert read_rows(topic=topic, bootstrap=spark_broker.address, isolation="read_uncommitted") == found


def test_an_open_transaction_hides_what_is_behind_it(read: Read, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 5)
    who = begin_transaction(spark_broker, topic, 0, "in it")
    publish(spark_broker, topic, 5)
    assert [row.offset for row in read(topic=topic)] == [0, 1, 2, 3, 4]
    assert len(read(topic=topic, isolation="read_uncommitted")) == 11
    end_transaction(spark_broker, "commit", who)
    assert len(read(topic=topic)) == 11


def test_a_few_columns(load: Load, mixed: tuple[str, list[Row], set[Any]]) -> None:
    topic, rows, _ = mixed
    narrow = load(topic, "offset BIGINT")
    assert narrow.columns == ["offset"]
    assert narrow.count() == len(rows)
    some = load(topic, "priority STRING, partition INT, timestamp TIMESTAMP").collect()
    assert sorted((row.partition, row.priority) for row in some) == sorted((r.partition, r.priority) for r in rows)


def test_offsets_and_times_as_borders(load: Load, read: Read, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    for partition in (0, 1):
        publish(spark_broker, topic, 100, partition=partition)
    rows = sdk_rows(spark_broker, topic)
    part = {"start": json.dumps({"0": 10, "1": "latest"}), "end": json.dumps({topic: {"0": 13}})}
    within = [row for row in rows if row.partition == 0 and 10 <= row.offset < 13]
    assert spark_rows(load(topic, **part)) == read(topic=topic, **part) == within
    middle = rows[0].append_time_ms + 1
    with quiver.connect(spark_broker.address) as client:
        at = datetime.fromtimestamp(middle / 1000, UTC).isoformat()
        offsets = client.offsets(topic, at)
    assert read(topic=topic, start=at) == [row for row in rows if row.offset >= offsets[row.partition]]
    assert read(topic=topic, end=at) == [row for row in rows if row.offset < offsets[row.partition]]
    assert read(topic=topic, start="-1d") == rows
    assert load(topic, start="latest").count() == 0


def test_several_topics_and_patterns(load: Load, read: Read, spark_broker: BrokerProcess) -> None:
    first, second = new_topic(spark_broker), new_topic(spark_broker)
    for topic in (first, second):
        publish(spark_broker, topic, 50)
    rows = sorted(sdk_rows(spark_broker, first) + sdk_rows(spark_broker, second))
    assert sorted(read(topics=f"{first}, {second}")) == rows
    assert sorted(spark_rows(load(topicPattern=f"{first}|{second}"))) == rows


def test_a_compacted_topic(load: Load, read: Read, spark_broker: BrokerProcess) -> None:
    """Frames that were thinned out keep their offsets."""
    topic = new_topic(spark_broker, partitions=1, cleanup="compact", segment_bytes=65_536)
    for _ in range(6):
        publish(spark_broker, topic, 2000)
    with quiver.connect(spark_broker.address) as client:
        client.topics.compact(topic)
    rows = sdk_rows(spark_broker, topic)
    assert 7 <= len(rows) < 12_000
    assert spark_rows(load(topic, minPartitions=5)) == rows
    middle = rows[len(rows) // 2].offset
    assert read(topic=topic, start=str(middle)) == [row for row in rows if row.offset >= middle]


def test_what_retention_removed(load: Load, read: Read, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 100)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    publish(spark_broker, topic, 10)
    rows = sdk_rows(spark_broker, topic)
    says = rf"offsets 5 to {rows[0].offset - 1} of {topic}-0 are gone: retention removed"
    with pytest.raises(PySparkException, match=says):
        load(topic, start="5").count()
    assert read(topic=topic, start="5", failOnDataLoss="false") == read(topic=topic) == rows


def test_what_retention_removes_between_plan_and_read(
    spark_broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 100)
    options = read_options({"topic": topic, "bootstrap": spark_broker.address}, now_ms=0)
    [slice_] = plan(options, cores=2)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    gone = f"offsets 0 to 99 of {topic}-0 are gone"
    with pytest.raises(quiver.errors.OffsetOutOfRange, match=gone):
        list(read_slice(slice_, options))
    assert list(read_slice(slice_, options._replace(fail_on_data_loss=False))) == []
    assert gone in caplog.text


def test_a_topic_created_again_between_plan_and_read(
    spark_broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """With more partitions, and messages of its own, which are not those that were planned."""
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 20)
    options = read_options({"topic": topic, "bootstrap": spark_broker.address}, now_ms=0)
    [slice_] = plan(options, cores=1)
    with quiver.connect(spark_broker.address) as client:
        client.topics.add_partitions(topic, 2)
        publish(spark_broker, topic, 20)
        planned = [batch.num_rows for batch in read_slice(slice_, options)]
        assert planned == [20], "not what came after the plan"
        client.topics.delete(topic)
        client.topics.create(topic, partitions=3)
    publish(spark_broker, topic, 30)
    with pytest.raises(quiver.errors.QuiverError, match=f"topic '{topic}' was deleted"):
        list(read_slice(slice_, options))
    assert list(read_slice(slice_, options._replace(fail_on_data_loss=False))) == []
    assert f"topic '{topic}' was deleted" in caplog.text


def test_what_is_wrong_is_said(load: Load, mixed: tuple[str, Any, Any]) -> None:
    """What each option takes is checked in tests/unit/spark; here, that Spark's users hear of it."""
    with pytest.raises(PySparkException, match=r"there is no option 'topik' .*did you mean 'topic'\?"):
        load(topik="a").count()
    with pytest.raises(PySparkException, match="there is no topic 'no-such-topic'; create it first"):
        load(topic="no-such-topic").count()
    with pytest.raises(
        PySparkException, match=f"option 'start' names the topic 'order', and what is read is {mixed[0]}"
    ):
        load(mixed[0], start='{"order": {"0": 4}}').count()
    with pytest.raises(PySparkException, match="has no column body binary; ask for topic string, partition int"):
        load(mixed[0], "body BINARY").count()
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(PySparkException, match=f"no connection to {address}.*is the broker running there"):
        load(topic="t", bootstrap=address, timeout="1s").count()
