"""Topics as tables: a catalog in SQL, values decoded from JSON, and a broker inside the program."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import quiver
import quiver_spark
from blackbox.processes.broker_process import BrokerProcess, free_port
from quiver.model.errors import QuiverError
from spark.topic_rows import new_topic

ORDERS = [{"id": number, "country": "DE" if number % 3 else "AT", "amount": number / 4} for number in range(100)]
CORRUPT = [b"no json", b'{"id": "text"}']
SCHEMA = "id BIGINT, country STRING, amount DOUBLE"
SECONDS = 60


@pytest.fixture
def embedded(spark: SparkSession) -> Iterator[quiver.Client]:
    """A broker in this process that the session uses, with the topic `orders`."""
    with quiver.open(":memory:") as client:
        client.topics.create("orders", partitions=2)
        with client.producer("orders") as producer:
            producer.send_many([json.dumps(order).encode() for order in ORDERS])
            producer.send_many(CORRUPT)
        client.publish("orders", None, key="tombstone")
        quiver_spark.register(spark, client)
        yield client
    quiver_spark.register(spark)
    quiver_spark.register_tables(spark)


def test_topics_of_a_broker_in_the_same_process_are_tables(
    spark: SparkSession, embedded: quiver.Client, tmp_path: Path
) -> None:
    count = spark.sql("SELECT count(*) AS rows FROM quiver.orders")
    assert count.first().rows == 103
    assert spark.read.format("quiver").option("topic", "orders").load().count() == 103
    embedded.topics.create("copies", partitions=1)
    assert {row.tableName for row in spark.sql("SHOW TABLES IN quiver").collect()} == {"orders", "copies"}
    spark.sql("INSERT INTO quiver.copies SELECT 'k' AS key, cast(id AS string) AS value FROM range(0, 5, 1, 1)")
    copies = spark.table("quiver.copies")
    assert copies.count() == 5
    query = (
        spark.readStream.table("quiver.orders")
        .select("key", "value")
        .writeStream.option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .toTable("quiver.copies")
    )
    assert query.awaitTermination(SECONDS)
    assert copies.count() == 108
    assert spark.sql("SELECT * FROM quiver.copies WITH (start = 'latest')").count() == 0
    late = copies.where("offset >= 50").count()
    assert spark.sql("SELECT * FROM quiver.copies WITH (start = '50')").count() == late > 0
    for wrong, says in (
        ("SELECT * FROM quiver.nowhere", "there is no topic 'nowhere' at 127.0.0.1"),
        ("CREATE TABLE quiver.more (a INT)", "create, alter and delete topics with quiver topic"),
        ("DROP TABLE quiver.copies", "create, alter and delete topics with quiver topic"),
        (
            "SELECT value FROM quiver.copies WITH (valueSchema = 'id BIGINT')",
            r"'valueSchema' comes too late .*store a",
        ),
        ("SELECT * FROM quiver.copies WITH (includeHeaders = 'false')", r"'includeHeaders' comes too late"),
    ):
        with pytest.raises(PySparkException, match=says):
            spark.sql(wrong).collect()
    assert [spark.sql(f"SHOW TABLES IN quiver LIKE '{name}'").count() for name in ("copies", "nowhere")] == [1, 0]
    shown = repr(quiver_spark.display(spark.table("quiver.copies").select("key", "value"), rows=2))
    assert shown.splitlines() == [
        "key  value",
        "---  -----",
        "k    0",
        "k    1",
        "(the first 2 rows; there are more)",
    ]


def test_values_are_decoded_by_a_schema(spark: SparkSession, embedded: quiver.Client) -> None:
    orders = spark.read.format("quiver").options(topic="orders", valueSchema=SCHEMA).load()
    assert orders.schema["value"].dataType.simpleString() == "struct<id:bigint,country:string,amount:double>"
    found = {tuple(row.value) for row in orders.where("value IS NOT NULL").select("value").collect()}
    assert found == {(each["id"], each["country"], each["amount"]) for each in ORDERS}
    rest = orders.where("value IS NULL").select("_corrupt").collect()
    assert sorted(bytes(row._corrupt or b"") for row in rest) == sorted([b"", *CORRUPT])
    inferred = spark.read.format("quiver").options(topic="orders", valueSchema="infer").load()
    assert inferred.select("value.*").columns == ["amount", "country"]
    named = (
        spark.read.format("quiver").schema("value STRUCT<amount: DOUBLE>, offset BIGINT").option("topic", "orders")
    )
    assert named.load().selectExpr("sum(value.amount) AS total").first().total == sum(o["amount"] for o in ORDERS)
    quiver_spark.register_tables(spark, "typed", bootstrap=embedded.listen(), valueSchema=SCHEMA)
    countries = spark.sql("SELECT value.country, count(*) AS n FROM typed.orders GROUP BY 1 ORDER BY 2").collect()
    assert [(row.country, row.n) for row in countries] == [(None, 3), ("AT", 34), ("DE", 66)]


def test_a_schema_is_stored_for_all_who_read_a_topic(spark: SparkSession, embedded: quiver.Client) -> None:
    """Another session or process finds it at the broker; the tables of catalogs have its columns."""
    stored = spark.read.format("quiver").options(topic="orders", valueSchema="stored")
    with pytest.raises(PySparkException, match="no schema is stored for the topic 'orders'"):
        stored.load()
    quiver_spark.store_schema(spark, "orders", SCHEMA, embedded)
    typed = "struct<id:bigint,country:string,amount:double>"
    assert stored.load().schema["value"].dataType.simpleString() == typed
    assert spark.sql("SELECT value.country FROM quiver.orders WHERE value.id = 3").first().country == "AT"
    assert spark.sql("SELECT count(*) AS n FROM quiver.orders WHERE _corrupt IS NOT NULL").first().n == 2
    assert {row.tableName for row in spark.sql("SHOW TABLES IN quiver").collect()} == {"orders"}
    spark.sql("INSERT INTO quiver.orders SELECT cast('{}' AS binary) AS value")
    quiver_spark.register_tables(spark, "raw", bootstrap=embedded.listen(), valueSchema="bytes")
    for raw in (spark.read.format("quiver").option("topic", "orders").load(), spark.table("raw.orders")):
        assert raw.schema["value"].dataType.simpleString() == "binary"
    quiver_spark.store_schema(spark, "orders", "infer", embedded)
    assert spark.table("quiver.orders").select("value.*").columns == ["amount", "country"]
    with pytest.raises(QuiverError, match="cannot be"):
        quiver_spark.store_schema(spark, "orders", "id BINARY", embedded)
    quiver_spark.store_schema(spark, "orders", None, embedded)
    assert spark.table("quiver.orders").schema["value"].dataType.simpleString() == "binary"
    quiver_spark.store_schema(spark, "orders", SCHEMA, embedded)
    embedded.topics.delete("orders")
    embedded.topics.create("orders")
    with pytest.raises(PySparkException, match="no schema is stored"):
        stored.load()


def test_a_catalog_is_as_wide_as_its_broker(spark: SparkSession, spark_broker: BrokerProcess) -> None:
    """Topics that come, go and come again are what the catalog shows; two catalogs are two brokers."""
    quiver_spark.register_tables(spark, "other", **{"kafka.bootstrap.servers": spark_broker.address})
    topic = new_topic(spark_broker)
    with quiver.connect(spark_broker.address) as client:
        client.publish(topic, b"first")
        frame = spark.sql(f"SELECT cast(value AS string) AS value FROM other.`{topic}`")
        assert [row.value for row in frame.collect()] == ["first"]
        client.topics.delete(topic)
        with pytest.raises(PySparkException, match="there is no topic"):
            spark.table(f"other.`{topic}`")
        client.topics.create(topic)
        client.publish(topic, b"second")
        assert [row.value for row in frame.select("*").collect()] == ["second"]


def test_errors_are_said_once(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    """Not by a second, longer text in the log."""
    quiver_spark.register_tables(spark, "away", bootstrap=f"127.0.0.1:{free_port()}", timeout="200ms")
    for wrong, says in (
        ("SELECT * FROM away.orders", "^no connection to 127.0.0.1.*; is the broker running there?"),
        ("SELECT missing FROM range(3)", "with name `missing` cannot be resolved"),
    ):
        with pytest.raises(PySparkException, match=says):
            spark.sql(wrong)
    with pytest.raises(PySparkException, match="cannot be resolved"):
        spark.range(3).select("missing")
    assert '"level": "ERROR"' not in capfd.readouterr().err
