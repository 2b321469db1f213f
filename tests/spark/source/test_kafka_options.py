"""What people know from Kafka's source and sink: the same options give the same rows."""

import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import quiver
import quiver_spark
from blackbox.processes.broker_process import BrokerProcess
from spark.topic_rows import new_topic, publish, sdk_rows

SECONDS = 60


def test_a_batch_under_the_names_of_kafka(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    one, other = new_topic(spark_broker, partitions=3), new_topic(spark_broker)
    for topic in (one, other):
        for partition in (0, 1):
            publish(spark_broker, topic, 50, partition=partition)
    reader = spark.read.format("quiver").option("kafka.bootstrap.servers", spark_broker.address)
    chosen = json.dumps({one: [0, 2], other: [1]})
    places = json.dumps({one: {"0": 40, "2": -2}, other: {"1": -2}})
    frame = reader.options(assign=chosen, startingOffsets=places, includeHeaders="false", maxRecordsPerPartition="20")
    rows = frame.load()
    assert "headers" not in rows.columns
    assert {
        (row.topic, row.partition): row["count"] for row in rows.groupBy("topic", "partition").count().collect()
    } == {
        (one, 0): 10,
        (other, 1): 50,
    }
    assert rows.rdd.getNumPartitions() == 4
    late = (
        spark.read.format("quiver")
        .option("bootstrap", spark_broker.address)
        .options(subscribe=other, startingTimestamp="9999999999999", startingOffsetsByTimestampStrategy="error")
        .load()
    )
    with pytest.raises(PySparkException, match="has no message since 2286-11-20"):
        late.collect()


def test_a_group_follows_a_stream_and_its_lag_is_shown(
    spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, group = new_topic(spark_broker), "follower"
    publish(spark_broker, topic, 30, partition=0)
    options = {"kafka.bootstrap.servers": spark_broker.address, "subscribe": topic, "kafka.group.id": group}
    rows = spark.readStream.format("quiver").options(**options, maxOffsetsPerTrigger="10").load()
    lags = []
    writer = rows.writeStream.foreachBatch(lambda frame, batch: lags.append(frame.count()))
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS)
    assert lags == [10, 10, 10]
    shown = [json.loads(each["sources"][0]["latestOffset"] or "{}") for each in query.recentProgress]
    assert [each[topic]["behind"] for each in shown if each] == [20, 10, 0]
    assert quiver_spark.lag(query) == {topic: 0}
    publish(spark_broker, topic, 5, partition=0)
    with quiver.connect(spark_broker.address) as client:
        first, second = client.groups.describe(group).partitions
        assert (first.committed, first.lag, second.committed) == (30, 5, 0)


def test_rows_go_to_the_topics_they_name_in_one_transaction(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    left, right = new_topic(spark_broker), new_topic(spark_broker)
    frame = spark.range(200, numPartitions=2).selectExpr(
        "cast(id AS string) AS value", f"if(id % 3 = 0, '{left}', '{right}') AS topic"
    )
    writer = {"kafka.bootstrap.servers": spark_broker.address}
    frame.write.format("quiver").options(**writer).mode("append").save()
    found = [sorted(int(row.value or b"") for row in sdk_rows(spark_broker, topic)) for topic in (left, right)]
    assert found == [[n for n in range(200) if n % 3 == 0], [n for n in range(200) if n % 3]]
    again = frame.selectExpr("value", "topic", "array(named_struct('key', 'a', 'value', value)) AS headers")
    with pytest.raises(PySparkException, match=r"select map_from_entries\(headers\) AS headers"):
        again.write.format("quiver").options(**writer).mode("append").save()
    few = again.where("value < 2").write.format("quiver").options(**writer, includeHeaders="false")
    few.mode("append").save()
    assert [len(sdk_rows(spark_broker, topic)) for topic in (left, right)] == [68, 134]
    nowhere = frame.unionAll(spark.sql("SELECT 'x' AS value, 'is-missing' AS topic"))
    with pytest.raises(PySparkException, match="is-missing"):
        nowhere.write.format("quiver").options(**writer).mode("append").save()
    assert [len(sdk_rows(spark_broker, topic)) for topic in (left, right)] == [68, 134]
