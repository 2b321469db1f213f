"""One DataFrame or view used several times: each query reads the topic as it is then, whatever others asked for."""

from functools import reduce
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from blackbox.processes.broker_process import BrokerProcess
from spark.topic_rows import Row, mixed_topic, new_topic, publish, sdk_rows, sorted_rows, spark_rows, without

PUSHING = "spark.sql.python.filterPushdown.enabled"
FILTERS = {
    "partition": "partition = 1",
    "offset": "offset >= 20 AND offset < 40",
    "priorities": "priority IN ('low', 'critical')",
    "key": "key = CAST('key-3' AS BINARY)",
    "no key": "key IS NULL",
    "timestamp": "timestamp < TIMESTAMP'2026-02-01 00:00:00'",
    "value": "value = CAST('lz4-7' AS BINARY)",
    "either": "partition = 1 OR offset < 5",
    "not": "priority != 'normal'",
}


@pytest.fixture(params=["true", "false"])
def pushing(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """A session may have push-down on for the sake of other sources."""
    spark.conf.set(PUSHING, request.param)
    yield request.param
    spark.conf.unset(PUSHING)


@pytest.fixture
def frame(spark: SparkSession, spark_broker: BrokerProcess) -> DataFrame:
    """100 messages in partition 0 and 300 in partition 1."""
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 100, partition=0)
    publish(spark_broker, topic, 300, partition=1)
    return _load(spark, spark_broker, topic)


def _load(spark: SparkSession, broker: BrokerProcess, topic: str) -> DataFrame:
    return spark.read.format("quiver").option("bootstrap", broker.address).option("topic", topic).load()


def test_a_filter_stays_with_its_query(frame: DataFrame, pushing: str) -> None:
    assert frame.where("partition = 0").count() == 100
    assert frame.count() == 400
    first, second = frame.where("partition = 0"), frame.where("partition = 1")
    assert first.union(second).count() == 400
    assert (first.count(), second.count(), frame.count()) == (100, 300, 400)
    assert first.join(second, "offset").count() == 100
    assert frame.where("offset < 5").join(frame.select("partition", "offset"), ["partition", "offset"]).count() == 10


def test_a_view_with_filters_below_a_subquery(spark: SparkSession, frame: DataFrame, pushing: str) -> None:
    frame.createOrReplaceTempView("uses")
    asked = (
        "SELECT count(*) FROM uses WHERE partition = 0 AND offset IN (SELECT offset FROM uses WHERE partition = 1)"
    )
    assert spark.sql(asked).first() == (100,)
    assert spark.sql("SELECT count(*) FROM uses").first() == (400,)


def test_every_filter_of_one_frame_in_one_query(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic, aborted = mixed_topic(spark_broker)
    rows = without(sdk_rows(spark_broker, topic), aborted)
    frame = _load(spark, spark_broker, topic)
    alone = {name: _filtered(_load(spark, spark_broker, topic), {name: each}) for name, each in FILTERS.items()}
    together = _filtered(frame, FILTERS)
    for name in FILTERS:
        assert together[name] == alone[name][name], name
        assert 0 < len(together[name]) < len(rows), name
    assert spark_rows(frame) == rows


def _filtered(frame: DataFrame, filters: dict[str, str]) -> dict[str, list[Row]]:
    parts = [frame.where(each).withColumn("filter", lit(name)) for name, each in filters.items()]
    found = reduce(DataFrame.union, parts).collect()
    return {name: sorted_rows(row for row in found if row["filter"] == name) for name in filters}


def test_what_is_published_later_is_in_the_next_query(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    frame = _load(spark, spark_broker, topic)
    frame.createOrReplaceTempView("later")
    assert frame.count() == 0
    for wanted in (5, 10):
        publish(spark_broker, topic, 5)
        assert frame.count() == wanted
        assert spark.sql("SELECT count(*) FROM later").first() == (wanted,)
        assert frame.union(frame).count() == 2 * wanted


def test_a_cached_frame_stays_as_it_is(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 5)
    frame = _load(spark, spark_broker, topic).cache()
    assert frame.count() == 5
    publish(spark_broker, topic, 5)
    assert frame.where("offset >= 0").count() == 5
    assert _load(spark, spark_broker, topic).count() == 10
    frame.unpersist()
    assert frame.count() == 10


def test_collecting_the_same_frame_twice_is_one_query(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 5)
    frame = _load(spark, spark_broker, topic)
    assert len(frame.collect()) == 5
    publish(spark_broker, topic, 5)
    assert len(frame.collect()) == 5
    assert len(frame.select("*").collect()) == 10


def test_a_session_of_ones_own(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    """One that only finds the format by itself keeps the first plan; `register` changes that."""
    import quiver_spark

    topic = new_topic(spark_broker)
    publish(spark_broker, topic, 5)
    own = spark.newSession()
    frame = _load(own, spark_broker, topic)
    assert frame.count() == 5
    publish(spark_broker, topic, 5)
    assert frame.count() == 5
    quiver_spark.register(own)
    quiver_spark.register(own)
    assert frame.count() == 10
    publish(spark_broker, topic, 5)
    assert frame.count() == 15


REFUSED = r"Spark does not pass the options of CREATE TABLE .* or CREATE TEMPORARY VIEW name USING quiver OPTIONS"


def test_tables_of_the_catalog_are_refused_with_the_way_that_works(
    spark: SparkSession, spark_broker: BrokerProcess
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 3)
    options = f"USING quiver OPTIONS (bootstrap '{spark_broker.address}', topic '{topic}')"
    for made in (
        f"TABLE refused {options}",
        f"TABLE refused (offset BIGINT) {options}",
        "TABLE refused USING quiver",
    ):
        with pytest.raises(PySparkException, match=REFUSED):
            spark.sql(f"CREATE {made}")
    with pytest.raises(PySparkException, match=REFUSED):
        spark.range(1).selectExpr("CAST(id AS STRING) AS value").write.format("quiver").saveAsTable("refused")
    assert not spark.catalog.tableExists("refused")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW taken {options}")
    assert spark.sql("SELECT count(*) FROM taken").first() == (3,)
