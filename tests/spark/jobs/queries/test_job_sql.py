"""Queries over topics into topics: once, repeated, and as streams that continue."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest, QuiverError
from quiver_spark.jobs import sql
from quiver_spark.jobs.sql.stream import StreamSettings
from spark.example_orders import values_in
from spark.topic_rows import new_topic, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish_orders(broker: BrokerProcess, topic: str, numbers: range) -> None:
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        for number in numbers:
            order = {"id": number, "country": ("DE", "AT")[number % 2], "amount": number * 1.5}
            producer.send(json.dumps(order).encode(), b"c%d" % (number % 3))


def orders_topic(broker: BrokerProcess) -> str:
    topic = new_topic(broker)
    publish_orders(broker, topic, range(10))
    return topic


def test_a_batch_is_written_once(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = orders_topic(spark_broker)
    target, table = f"{topic}-totals", topic.replace("-", "_")
    query = f"select country, count(*) orders, sum(amount) total from {table} group by country"
    words = [query, "--from", topic, "--to", target, "--bootstrap", spark_broker.address, "--output", "json"]
    assert sql.main([*words, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["columns"] == ["country string", "orders bigint", "total double"]
    for _ in range(2):
        assert sql.main([*words, "--key", "country", "--progress"]) == 0
        assert json.loads(capsys.readouterr().out)["rows"] == 2
    totals = {row.key: json.loads(row.value or b"") for row in sdk_rows(spark_broker, target)}
    assert totals == {
        b"DE": {"country": "DE", "orders": 5, "total": 30.0},
        b"AT": {"country": "AT", "orders": 5, "total": 37.5},
    }
    source = {"topic": topic, "bootstrap": spark_broker.address}
    for _ in range(2):
        sql.run(spark, f"select * from `{topic}` where amount > 9", source, target, run_id="r", state=tmp_path)
        publish_orders(spark_broker, topic, range(20, 21))
    assert len(sdk_rows(spark_broker, target)) == 2 + 3, "a run with an id is about the messages of its beginning"
    with pytest.raises(QuiverError, match="the query failed in Spark"):
        sql.run(spark, "select nothing from nowhere", source, target)
    with pytest.raises(InvalidRequest, match="and 'double', for which a message has no place"):
        sql.run(spark, f"select value, 2 * amount as double from `{topic}`", source, target)
    with pytest.raises(InvalidRequest, match="name the topics"):
        sql.run(spark, "select 1", {"topicPattern": "x.*", **source, "topic": None}, target)


def test_a_stream_continues(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic = orders_topic(spark_broker)
    source: dict[str, Any] = {"topics": topic, "bootstrap": spark_broker.address}
    plain, sums = f"{topic}-large", f"{topic}-sums"
    settings = StreamSettings(str(tmp_path / "plain"), once=True)
    changes = StreamSettings(str(tmp_path / "sums"), once=True, updates=True)
    query = f"select * from `{topic}` where id % 2 = 0"
    assert sql.run_stream(spark, query, source, plain, settings, dry_run=True).details["columns"]
    for numbers in (range(10), range(10, 14)):
        if numbers.start:
            publish_orders(spark_broker, topic, numbers)
        sql.run_stream(spark, query, source, plain, settings, show_progress=True)
        summary = sql.run_stream(
            spark, f"select country, max(id) last from `{topic}` group by country", source, sums, changes
        )
        assert summary.details["messages_read"] == len(numbers)
    assert sorted(each["id"] for each in values_in(spark_broker, plain)) == list(range(0, 14, 2))
    changed = sorted((each["country"], each["last"]) for each in values_in(spark_broker, sums))
    assert changed == [("AT", 9), ("AT", 13), ("DE", 8), ("DE", 12)]


def test_what_is_refused(
    spark: "SparkSession", spark_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["select 1", "--from", "a", "--to", "b", "--bootstrap", spark_broker.address]
    for more, problem in (
        (["--stream"], "--stream needs --checkpoint"),
        (["--once"], "--once is for --stream"),
        (["--stream", "--checkpoint", "x", "--end", "7"], "--end is for runs without --stream"),
        (["--stream", "--checkpoint", "x", "--watermark", "at"], "is not a column and a delay"),
    ):
        assert sql.main([*words, *more]) == 1
        assert problem in capsys.readouterr().err
