"""Queries read no more than they need, and get the same rows: columns, summaries of frames, keys, ranges."""

from collections import Counter
from typing import Any
from urllib.request import urlopen

import pytest
from pyspark.sql import DataFrame, SparkSession

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.source.catalogue import plan
from quiver_spark.source.narrow.hints import Bounds, ReadHints
from quiver_spark.source.options import read_options
from spark.topic_rows import Row, mixed_topic, new_topic, sdk_rows, sorted_rows, without

Topic = tuple[str, list[Row]]


@pytest.fixture(scope="module")
def mixed(spark_broker: BrokerProcess) -> Topic:
    topic, aborted = mixed_topic(spark_broker)
    return topic, without(sdk_rows(spark_broker, topic), aborted)


@pytest.fixture(params=["broker", "files"])
def place(spark_broker: BrokerProcess, request: pytest.FixtureRequest) -> dict[str, str]:
    return {"bootstrap": spark_broker.address} if request.param == "broker" else {"path": str(spark_broker.data_dir)}


def load(spark: SparkSession, place: dict[str, str], topic: str, **options: Any) -> DataFrame:
    return spark.read.format("quiver").options(**place, topic=topic, **options).load()


def columns_read(frame: DataFrame) -> list[str]:
    """The columns that the scan of a query's plan asks the source for."""
    leaf = frame._jdf.queryExecution().optimizedPlan().collectLeaves().head()
    return [leaf.output().apply(place).name() for place in range(leaf.output().length())]


def test_a_query_reads_the_columns_that_it_uses(
    spark: SparkSession, spark_broker: BrokerProcess, mixed: Topic
) -> None:
    frame = load(spark, {"bootstrap": spark_broker.address}, mixed[0])
    assert columns_read(frame.select("offset", "partition")) == ["partition", "offset"]
    assert columns_read(frame.where("offset > 3").selectExpr("length(value)")) == ["offset", "value"]
    assert columns_read(frame.groupBy("partition").sum("offset")) == ["partition", "offset"]
    assert columns_read(frame.groupBy("partition").count()) == ["partition", "quiver_rows"]
    assert columns_read(frame.selectExpr("max(offset)", "count(1)")) == ["offset", "quiver_rows"]
    assert columns_read(frame) == frame.columns
    both = frame.select("partition", "offset").join(frame.select("offset", "key"), "offset")
    assert columns_read(both) == ["partition", "offset", "key"]


def test_summaries_of_frames_agree_with_the_rows(spark: SparkSession, place: dict[str, str], mixed: Topic) -> None:
    topic, rows = mixed
    rows = [row for row in rows if 7 <= row.offset < 480]
    frame = load(spark, place, topic, start='{"0": 7, "1": 7}', end='{"0": 480, "1": 480}')
    assert frame.count() == len(rows)
    counted = frame.groupBy("partition", "priority").count().collect()
    assert {(row[0], row[1]): row[2] for row in counted} == Counter((row.partition, row.priority) for row in rows)
    asked = "min(offset)", "max(offset)", "unix_millis(min(timestamp))", "unix_millis(max(timestamp))", "count(topic)"
    found = frame.selectExpr(*asked, "unix_millis(max(append_time)) + 1", "2 * count(1)").first()
    offsets, times = [row.offset for row in rows], [row.timestamp_ms for row in rows]
    appended = max(row.append_time_ms for row in rows)
    assert found == (
        min(offsets), max(offsets), min(times), max(times), len(rows), appended + 1, 2 * len(rows)
    )  # fmt: skip
    empty = load(spark, place, topic, start="latest")
    assert empty.count() == 0
    assert empty.selectExpr("count(1)", "max(offset)").first() == (0, None)


def test_summaries_of_compacted_frames(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1, cleanup="compact")
    with quiver.connect(spark_broker.address) as client:
        with client.producer(topic) as producer:
            producer.send_many([b"v"] * 50, [b"k%d" % (n % 20) for n in range(50)])
            producer.flush()
            producer.send(b"last", b"k1")
        client.topics.compact(topic)
        kept = [row.offset for row in sdk_rows(spark_broker, topic)]
    frame = load(spark, {"bootstrap": spark_broker.address}, topic)
    assert frame.count() == len(kept)
    assert frame.selectExpr("min(offset)", "max(offset)", "count(1)").first() == (min(kept), max(kept), len(kept))
    assert sorted(row.offset for row in frame.select("offset").collect()) == kept


def test_keys_are_found_in_every_kind_of_frame(spark: SparkSession, place: dict[str, str], mixed: Topic) -> None:
    topic, rows = mixed
    frame = load(spark, place, topic)
    for asked, keys in {
        "key = CAST('key-3' AS BINARY)": {b"key-3"},
        "key = 'key-2' AND partition = 1": {b"key-2"},
        "key IN ('key-4', 'key-5', 't', 'missing')": {b"key-4", b"key-5", b"t"},
        "key = ''": {b""},
        "key = 'ke'": set(),
    }.items():
        wanted = [row for row in rows if row.key in keys and (row.partition == 1 or "partition" not in asked)]
        assert sorted_rows(frame.where(asked).collect()) == wanted, asked
        assert frame.where(asked).count() == len(wanted), asked


def test_hints_leave_out_ranges(spark_broker: BrokerProcess, mixed: Topic) -> None:
    topic, rows = mixed
    options = read_options({"bootstrap": spark_broker.address, "topic": topic}, now_ms=0)
    ends = {number: max(row.offset for row in rows if row.partition == number) + 1 for number in (0, 1)}

    def planned(**hints: Any) -> list[tuple[int, int, int]]:
        return [(each.partition, each.start, each.stop) for each in plan(options, cores=1, hints=ReadHints(**hints))]

    assert planned(partitions=frozenset({1})) == [(1, 0, ends[1])]
    assert planned(offsets=Bounds(5, 9)) == [(0, 5, 10), (1, 5, 10)]
    late = max(row.append_time_ms for row in rows)
    newest = planned(append_ms=Bounds(least=late))
    assert newest
    for row in rows:
        is_planned = any(number == row.partition and start <= row.offset for number, start, _ in newest)
        assert is_planned == (row.append_time_ms >= late)
    assert planned(append_ms=Bounds(most=0)) == []


def test_a_count_fetches_headers(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        producer.send_many([b"x" * 1_000] * 1_000)
    assert load(spark, {"bootstrap": spark_broker.address}, topic, localFiles="false").count() == 1_000
    with urlopen(f"{spark_broker.http}/metrics", timeout=10) as answer:
        lines = [line for line in answer.read().decode().splitlines() if f'topic="{topic}"' in line]
    sent = [float(line.split()[-1]) for line in lines if line.startswith("quiver_read_bytes_total")]
    assert 0 < sum(sent) < 10_000
