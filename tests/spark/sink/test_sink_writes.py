"""DataFrames become messages, row by row and column by column; what does not fit is refused before it is written."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from spark.topic_rows import mixed_topic, new_topic, sdk_rows

Save = Callable[..., None]
_MOMENT = datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)


@pytest.fixture
def save(spark_broker: BrokerProcess) -> Save:
    def save(frame: DataFrame, topic: str, mode: str = "append", **options: Any) -> None:
        words = {"bootstrap": spark_broker.address, "topic": topic, **options}
        frame.write.format("quiver").options(**words).mode(mode).save()

    return save


def _load(spark: SparkSession, broker: BrokerProcess, topic: str) -> DataFrame:
    return spark.read.format("quiver").option("bootstrap", broker.address).option("topic", topic).load()


def _open(broker: BrokerProcess, topic: str) -> int:
    with quiver.connect(broker.address) as client:
        return sum(each.state == "open" and topic in dict(each.partitions) for each in client.transactions.list())


def _content(broker: BrokerProcess, topic: str) -> list[tuple[Any, ...]]:
    """Everything of the messages but their offsets."""
    rows = sdk_rows(broker, topic)
    return sorted(
        ((row.partition, row.timestamp_ms, row.key, row.value, row.headers, row.priority) for row in rows), key=repr
    )


def test_every_column_there_and_back(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    """A topic with every kind of message is copied, with the partition of each one."""
    source, _ = mixed_topic(spark_broker)
    target = new_topic(spark_broker)
    save(_load(spark, spark_broker, source), target, usePartitionColumn=True, compression="lz4")
    copied = _content(spark_broker, target)
    assert copied == _content(spark_broker, source)
    assert len(copied) > 900
    assert {row[5] for row in copied} == {"critical", "normal", "low", "background"}
    assert {len(row[4]) for row in copied} == {0, 2}


def test_keys_choose_the_partition_as_the_sdk_does(
    spark: SparkSession, spark_broker: BrokerProcess, save: Save
) -> None:
    by_spark, by_sdk = (new_topic(spark_broker, partitions=5) for _ in range(2))
    frame = spark.range(2_000).selectExpr("concat('key-', id % 97) key", "cast(id as string) value")
    save(frame, by_spark)
    with quiver.connect(spark_broker.address) as client, client.producer(by_sdk) as producer:
        producer.send_many([str(n) for n in range(2_000)], [f"key-{n % 97}" for n in range(2_000)])
    found = {(row.partition, row.key, row.value) for row in sdk_rows(spark_broker, by_spark)}
    assert found == {(row.partition, row.key, row.value) for row in sdk_rows(spark_broker, by_sdk)}
    assert len(found) == 2_000
    assert {partition for partition, _, _ in found} == set(range(5))


def test_rows_of_a_task_keep_their_order(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    topic = new_topic(spark_broker, partitions=1)
    save(spark.range(0, 50_000, 1, 1).selectExpr("cast(id as string) value"), topic)
    assert [row.value for row in sdk_rows(spark_broker, topic)] == [b"%d" % n for n in range(50_000)]


def test_text_and_what_is_missing(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    topic = new_topic(spark_broker, partitions=1)
    rows = [
        ("text", "k", {"h": "v"}, _MOMENT, "LOW"),
        (None, "k", None, None, None),
        ("no key", None, {}, None, None),
    ]
    schema = "value string, key string, headers map<string,string>, timestamp timestamp, priority string"
    save(spark.createDataFrame(rows, schema).coalesce(1), topic)
    found = {row.value: row for row in sdk_rows(spark_broker, topic)}
    assert found.keys() == {b"text", None, b"no key"}
    text = found[b"text"]
    assert (text.key, text.headers, text.timestamp_ms, text.priority) == (
        b"k",
        (("h", b"v"),),
        int(_MOMENT.timestamp() * 1000),
        "low",
    )
    assert (found[None].key, found[None].headers, found[None].priority) == (b"k", (), "normal")
    assert found[b"no key"].key is None
    assert found[None].timestamp_ms > text.timestamp_ms  # the time of writing


def test_an_empty_frame_writes_nothing(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    topic = new_topic(spark_broker)
    save(spark.createDataFrame([], "value string"), topic)
    assert sdk_rows(spark_broker, topic) == []


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    """One task fails in the middle; the other is done, is killed, or has not begun."""
    topic = new_topic(spark_broker)
    frame = spark.range(0, 60_000, 1, 2).selectExpr(
        "cast(if(id = 59999, raise_error('row 59999 is bad'), id) as string) value"
    )
    with pytest.raises(PySparkException, match="row 59999 is bad"):
        save(frame, topic)
    assert sdk_rows(spark_broker, topic) == []
    save(spark.range(3).selectExpr("cast(id as string) value"), topic)
    # Workers of the failed write may still be busy; what they store meanwhile they abort themselves.
    wait_until(lambda: len(sdk_rows(spark_broker, topic)) == 3, 30, "the rows of the second write are readable")
    wait_until(lambda: _open(spark_broker, topic) == 0, 30, "nothing is open")


def test_a_write_with_a_key_counts_once(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    topic = new_topic(spark_broker)
    frame = spark.range(100).selectExpr("cast(id as string) value")
    for _ in range(2):
        save(frame, topic, commitKey=f"load {topic}")
    assert sorted(int(row.value or b"") for row in sdk_rows(spark_broker, topic)) == list(range(100))
    assert _open(spark_broker, topic) == 0


def test_what_is_refused_is_said(spark: SparkSession, spark_broker: BrokerProcess, save: Save) -> None:
    """Other refusals are in test_sink_refusals.py; here, that users of Spark see them."""
    topic = new_topic(spark_broker)
    frame = spark.range(0, 3, 1, 1)
    with pytest.raises(PySparkException, match="has no column 'id'"):
        save(frame, topic)
    with pytest.raises(PySparkException, match="there is no topic 'no-such-topic'; create it first"):
        save(frame.selectExpr("'a' value"), "no-such-topic")
    with pytest.raises(PySparkException, match="is the broker running there"):
        save(frame.selectExpr("'a' value"), topic, bootstrap=f"127.0.0.1:{free_port()}", timeout="1s")
    with pytest.raises(PySparkException, match="priority 'soon' is not one of critical, high"):
        save(frame.selectExpr("'a' value", "'soon' priority"), topic)
    assert sdk_rows(spark_broker, topic) == []
    assert _open(spark_broker, topic) == 0


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("overwrite", "a topic is never overwritten: use mode('append')"),
        ("ignore", "Please use"),
        ("error", "Please use"),
    ],
)
def test_other_modes_are_refused(
    spark: SparkSession, spark_broker: BrokerProcess, save: Save, mode: str, problem: str
) -> None:
    topic = new_topic(spark_broker)
    with pytest.raises(PySparkException, match=re.escape(problem)):
        save(spark.range(3).selectExpr("'a' value"), topic, mode=mode)
    assert sdk_rows(spark_broker, topic) == []
