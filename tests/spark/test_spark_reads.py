"""Batch reads agree with the SDK row by row, for every option and every kind of message."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import quiver
from blackbox.broker_process import BrokerProcess, free_port
from spark.topic_rows import (
    Row,
    begin_transaction,
    end_transaction,
    mixed_topic,
    new_topic,
    publish,
    sdk_rows,
    spark_rows,
    without,
)

Load = Callable[..., DataFrame]


@pytest.fixture
def load(spark: SparkSession, spark_broker: BrokerProcess) -> Load:
    def load(topic: str | None = None, schema: str | None = None, **options: Any) -> DataFrame:
        words = {"bootstrap": spark_broker.address, **options} | ({"topic": topic} if topic else {})
        reader = spark.read.format("quiver").options(**words)
        return (reader.schema(schema) if schema else reader).load()

    return load


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


def test_uncommitted_rows_on_request(load: Load, mixed: tuple[str, list[Row], set[Any]]) -> None:
    topic, rows, aborted = mixed
    found = spark_rows(load(topic, isolation="read_uncommitted"))
    assert {(row.partition, row.offset) for row in found} - {(row.partition, row.offset) for row in rows} == aborted
    assert without(found, aborted) == rows


def test_an_open_transaction_hides_what_is_behind_it(load: Load, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 5)
    who = begin_transaction(spark_broker, topic, 0, "in it")
    publish(spark_broker, topic, 5)
    assert [row.offset for row in spark_rows(load(topic))] == [0, 1, 2, 3, 4]
    assert load(topic, isolation="read_uncommitted").count() == 11
    end_transaction(spark_broker, "commit", who)
    assert load(topic).count() == 11


def test_a_few_columns(load: Load, mixed: tuple[str, list[Row], set[Any]]) -> None:
    topic, rows, _ = mixed
    narrow = load(topic, "offset BIGINT")
    assert narrow.columns == ["offset"]
    assert narrow.count() == len(rows)
    some = load(topic, "priority STRING, partition INT, timestamp TIMESTAMP").collect()
    assert sorted((row.partition, row.priority) for row in some) == sorted((r.partition, r.priority) for r in rows)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("offset INT", "ask for offset bigint"),
        ("body BINARY", "has no column body binary; ask for topic string, partition int"),
    ],
)
def test_a_column_that_there_is_not(load: Load, mixed: tuple[str, Any, Any], schema: str, says: str) -> None:
    with pytest.raises(PySparkException, match=says):
        load(mixed[0], schema).count()


def test_offsets_and_times_as_borders(load: Load, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    for partition in (0, 1):
        publish(spark_broker, topic, 100, partition=partition)
    rows = sdk_rows(spark_broker, topic)
    part = load(topic, start=json.dumps({"0": 10, "1": "latest"}), end=json.dumps({topic: {"0": 13}}))
    assert spark_rows(part) == [row for row in rows if row.partition == 0 and 10 <= row.offset < 13]
    middle = rows[0].append_time_ms + 1
    with quiver.connect(spark_broker.address) as client:
        at = datetime.fromtimestamp(middle / 1000, UTC).isoformat()
        offsets = client.offsets(topic, at)
    assert spark_rows(load(topic, start=at)) == [row for row in rows if row.offset >= offsets[row.partition]]
    assert spark_rows(load(topic, end=at)) == [row for row in rows if row.offset < offsets[row.partition]]
    assert load(topic, start="-1d").count() == 200
    assert load(topic, start="latest").count() == 0


def test_several_topics_and_patterns(load: Load, spark_broker: BrokerProcess) -> None:
    first, second = new_topic(spark_broker), new_topic(spark_broker)
    for topic in (first, second):
        publish(spark_broker, topic, 50)
    rows = sorted(sdk_rows(spark_broker, first) + sdk_rows(spark_broker, second))
    assert sorted(spark_rows(load(topics=f"{first}, {second}"))) == rows
    assert sorted(spark_rows(load(topicPattern=f"{first}|{second}"))) == rows


def test_a_compacted_topic(load: Load, spark_broker: BrokerProcess) -> None:
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
    assert load(topic, "offset BIGINT", start=str(middle)).count() == len([r for r in rows if r.offset >= middle])


def test_what_retention_removed(load: Load, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 100)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    publish(spark_broker, topic, 10)
    first = sdk_rows(spark_broker, topic)[0].offset
    with pytest.raises(PySparkException, match=rf"offsets 5 to {first} of {topic}-0 are gone: retention removed"):
        load(topic, start="5").count()
    assert load(topic, start="5", failOnDataLoss="false").count() == 10
    assert load(topic).count() == 10


def test_what_retention_removes_between_plan_and_read(spark_broker: BrokerProcess) -> None:
    from quiver_spark.catalogue import plan
    from quiver_spark.frames import read_slice
    from quiver_spark.options import read_options

    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 100)
    options = read_options({"topic": topic, "bootstrap": spark_broker.address}, now_ms=0)
    [piece] = plan(options, cores=2)
    with quiver.connect(spark_broker.address) as client:
        client.topics.purge(topic)
    with pytest.raises(quiver.errors.OffsetOutOfRange, match=f"offsets 0 to 100 of {topic}-0 are gone"):
        list(read_slice(piece, options))
    assert list(read_slice(piece, options._replace(fail_on_data_loss=False))) == []


def test_wrong_options_say_what_to_do(load: Load) -> None:
    """What each option takes is checked in tests/unit/spark; here, that Spark's users hear of it."""
    with pytest.raises(PySparkException, match=r"option 'topik' is not one of .* there are bootstrap, path, topic"):
        load(topik="a").count()
    with pytest.raises(PySparkException, match="there is no topic 'no-such-topic'; create it first"):
        load(topic="no-such-topic").count()


def test_no_broker_there(spark: SparkSession) -> None:
    address = f"127.0.0.1:{free_port()}"
    frame = spark.read.format("quiver").options(bootstrap=address, topic="t", timeout="1s").load()
    with pytest.raises(PySparkException, match=f"no connection to {address}.*is the broker running there"):
        frame.count()


FILTERS = {
    "partition": "partition = 1",
    "offset": "offset >= 20 AND offset < 40",
    "priority": "priority = 'low'",
    "priorities": "priority IN ('low', 'critical')",
    "key": "key = CAST('key-3' AS BINARY)",
    "keys": "key IN (CAST('key-1' AS BINARY), CAST('' AS BINARY))",
    "no key": "key IS NULL",
    "timestamp": "timestamp < TIMESTAMP'2026-02-01 00:00:00'",
    "time range": "timestamp BETWEEN TIMESTAMP'2026-01-31 12:00:00.123' AND TIMESTAMP'2026-01-31 12:00:00.124'",
    "value": "value = CAST('lz4-7' AS BINARY)",
    "either": "partition = 1 OR offset < 5",
    "not": "priority != 'normal'",
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_give_the_same_rows_pushed_down_or_not(
    spark: SparkSession, load: Load, mixed: tuple[str, list[Row], set[Any]], name: str
) -> None:
    topic, rows, _ = mixed
    setting = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(setting) == "true"
    pushed = spark_rows(load(topic).where(FILTERS[name]))
    spark.conf.set(setting, "false")
    try:
        plain = spark_rows(load(topic).where(FILTERS[name]))
    finally:
        spark.conf.set(setting, "true")
    assert pushed == plain
    assert 0 < len(pushed) < len(rows)


def test_filters_reach_the_plan(spark: SparkSession, load: Load, mixed: tuple[str, Any, Any]) -> None:
    """Spark has nothing left to filter, unless filters are not pushed down."""
    setting = "spark.sql.python.filterPushdown.enabled"
    pushed, plain = (load(mixed[0]).where("partition = 1 AND priority = 'low'") for _ in range(2))
    assert pushed.count() == 20
    assert "Filter (" not in _plan(pushed)
    spark.conf.set(setting, "false")
    try:
        assert "Filter (" in _plan(plain)
    finally:
        spark.conf.set(setting, "true")


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())
