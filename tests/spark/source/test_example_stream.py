"""The stream that users copy (examples/revenue_per_minute.py, docs/spark-examples.md)."""

import json
from pathlib import Path
from typing import Any

import pytest
from examples.revenue_per_minute import arguments, batch_line, make_topics, revenue, start
from pyspark.sql import SparkSession

from blackbox.processes.broker_process import BrokerProcess
from spark.example_orders import EXAMPLES, LONG, SECONDS, order, publish_orders, run_example, values_in
from spark.topic_rows import new_topic, sdk_rows


def sums_in(broker: BrokerProcess, topic: str) -> list[tuple[str, str, int, float]]:
    """Minute, country, orders and revenue of each message; the key is the country."""
    assert all(row.key == json.loads(row.value or b"")["country"].encode() for row in sdk_rows(broker, topic))
    values = values_in(broker, topic)
    return sorted((each["start"][11:16], each["country"], each["orders"], each["revenue"]) for each in values)


def test_revenue_is_summed_by_window_and_country(spark: SparkSession) -> None:
    broken = [b"no JSON", b'{"id": 1}', b'{"at": "yesterday", "country": "DE", "amount": 1}', None]
    orders = [order(0, "DE", 0.1), order(59, "DE", 0.2), order(60, "DE", 5), order(1, "FR", 7.25)]
    rows = [(each,) for each in [*broken, *(json.dumps(each).encode() for each in orders)]]
    written = revenue(spark.createDataFrame(rows, "value BINARY"), window="1 minute").collect()
    assert [(row.key, json.loads(row.value)) for row in sorted(written)] == [
        ("DE", _sums("12:00", "12:01", "DE", 2, 0.3)),
        ("DE", _sums("12:01", "12:02", "DE", 1, 5)),
        ("FR", _sums("12:00", "12:01", "FR", 1, 7.25)),
    ]


def _sums(start: str, end: str, country: str, orders: int, amount: float) -> dict[str, Any]:
    times = {"start": f"2026-01-31T{start}:00.000Z", "end": f"2026-01-31T{end}:00.000Z"}
    return {**times, "country": country, "orders": orders, "revenue": amount}


def test_the_line_of_a_batch() -> None:
    batch = {"timestamp": "now", "numInputRows": 12_000, "sink": {"numOutputRows": 4}, "stateOperators": []}
    assert batch_line(batch) == "now    12,000 orders read, 4 sums written"
    assert batch_line({**batch, "stateOperators": [{"numRowsDroppedByWatermark": 2}]}).endswith("written, 2 too late")
    assert batch_line({**batch, "numInputRows": 0, "sink": {"numOutputRows": 0}}) == ""


@pytest.mark.long
def test_the_stream_resumes(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    """`make chaos` begins it with its command, in a Spark of its own."""
    source = new_topic(spark_broker)
    words = ["--broker", spark_broker.address, "--source", source, "--target", f"{source}-sums", "--once"]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--lateness", "10 seconds"]
    publish_orders(
        spark_broker, source, [order(1, "DE", 10), order(2, "FR", 4.5), order(3, "DE", 0.5), order(75, "DE", 1)]
    )
    if LONG:
        assert "4 orders read, 0 sums written" in run_example(EXAMPLES / "revenue_per_minute.py", *words)
    else:
        make_topics(spark_broker.address, [source, f"{source}-sums"])
        assert start(spark, arguments(words)).awaitTermination(SECONDS)
    first = [("12:00", "DE", 2, 10.5), ("12:00", "FR", 1, 4.5)]
    assert sums_in(spark_broker, f"{source}-sums") == first

    publish_orders(spark_broker, source, [order(30, "DE", 99), order(80, "DE", 2), order(135, "FR", 3)])
    assert start(spark, arguments(words)).awaitTermination(SECONDS)
    assert sums_in(spark_broker, f"{source}-sums") == [*first, ("12:01", "DE", 2, 3)], "an order came too late"
