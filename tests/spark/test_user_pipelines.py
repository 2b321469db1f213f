"""The pipelines that users copy (examples/, docs/spark-examples.md), as they are shipped, each by its command."""

import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from examples.revenue_per_minute import arguments, batch_line, make_topics, revenue, start
from pyspark.sql import SparkSession

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from spark.topic_rows import new_topic, sdk_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it"),
]
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONG = bool(os.environ.get("QUIVER_LONG"))
"""A new Spark takes half a minute; `make chaos` has more of them."""
_SECONDS = 400
_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
_ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")},
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
    "SPARK_TESTING": "1",
}
"""The JVM compiles little: it does not live long. Spark Connect listens on a free port, not on the one all take."""


def order(second: float, country: str, amount: float) -> dict[str, Any]:
    at = (_NOON + timedelta(seconds=second)).isoformat()
    return {"id": int(second), "at": at, "customer": "customer-7", "country": country, "amount": amount}


def run(script: Path, *words: str) -> str:
    """What an example printed; it has to end well."""
    command = [sys.executable, str(script), *words]
    done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def publish(broker: BrokerProcess, topic: str, values: list[Any]) -> None:
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        for value in values:
            producer.send(value, "some key")


def values_in(broker: BrokerProcess, topic: str) -> list[Any]:
    return [json.loads(row.value or b"null") for row in sdk_rows(broker, topic)]


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


def test_a_batch_is_told_in_a_line() -> None:
    batch = {"timestamp": "now", "numInputRows": 12_000, "sink": {"numOutputRows": 4}, "stateOperators": []}
    assert batch_line(batch) == "now    12,000 orders read, 4 sums written"
    assert batch_line({**batch, "stateOperators": [{"numRowsDroppedByWatermark": 2}]}).endswith("written, 2 too late")
    assert batch_line({**batch, "numInputRows": 0, "sink": {"numOutputRows": 0}}) == ""


@pytest.mark.long
def test_the_stream_goes_on_where_it_was(spark: SparkSession, spark_broker: BrokerProcess, tmp_path: Path) -> None:
    """`make chaos` begins it with its command, in a Spark of its own."""
    source = new_topic(spark_broker)
    words = ["--broker", spark_broker.address, "--source", source, "--target", f"{source}-sums", "--once"]
    words += ["--checkpoint", str(tmp_path / "checkpoint"), "--lateness", "10 seconds"]
    publish(spark_broker, source, [order(1, "DE", 10), order(2, "FR", 4.5), order(3, "DE", 0.5), order(75, "DE", 1)])
    if LONG:
        assert "4 orders read, 0 sums written" in run(EXAMPLES / "revenue_per_minute.py", *words)
    else:
        make_topics(spark_broker.address, [source, f"{source}-sums"])
        assert start(spark, arguments(words)).awaitTermination(_SECONDS)
    first = [("12:00", "DE", 2, 10.5), ("12:00", "FR", 1, 4.5)]
    assert sums_in(spark_broker, f"{source}-sums") == first

    publish(spark_broker, source, [order(30, "DE", 99), order(80, "DE", 2), order(135, "FR", 3)])
    assert start(spark, arguments(words)).awaitTermination(_SECONDS)
    assert sums_in(spark_broker, f"{source}-sums") == [*first, ("12:01", "DE", 2, 3)], "an order came too late"


@pytest.mark.parametrize("script", ["generate_orders.py", "revenue_per_minute.py"])
def test_without_a_broker_they_say_what_to_do(script: str) -> None:
    command = [sys.executable, str(EXAMPLES / script), "--broker", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
    assert done.returncode == 1
    assert "Start a broker in another terminal (`make run`)" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_the_declarative_pipeline_writes_every_order_once(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    source = new_topic(spark_broker)
    target = f"{source}-large"
    pipeline = _own_pipeline(tmp_path, {"localhost:7481": spark_broker.address, "large-orders": target})
    _replace(pipeline / "spark-pipeline.yml", {"source: orders": f"source: {source}"})
    generator = EXAMPLES / "generate_orders.py"
    run(
        generator,
        "--broker",
        spark_broker.address,
        "--topic",
        source,
        "--minutes",
        "1",
        "--rate",
        "5",
        "--count",
        "0",
    )
    assert "Run is COMPLETED" in run(pipeline / "run.py")
    _check_tables(tmp_path, spark_broker, source, target)

    if not LONG:
        return
    publish(spark_broker, source, [b"no order", order(1, "XX", 100), order(2, "XX", 99.99)])
    assert "Run is COMPLETED" in run(pipeline / "run.py")
    _check_tables(tmp_path, spark_broker, source, target)
    assert [each["amount"] for each in values_in(spark_broker, target) if each["country"] == "XX"] == [100]


def _own_pipeline(place: Path, words: dict[str, str]) -> Path:
    """A copy, as a user makes it, with a state of its own."""
    pipeline = shutil.copytree(EXAMPLES / "declarative", place / "pipeline")
    for file in (pipeline / "spark-pipeline.yml", pipeline / "conf" / "spark-defaults.conf"):
        _replace(file, {"/var/tmp/quiver-orders": str(place / "state"), **words})
    return pipeline


def _replace(file: Path, words: dict[str, str]) -> None:
    text = file.read_text()
    for old, new in words.items():
        text = text.replace(old, new)
    file.write_text(text)


def _check_tables(place: Path, broker: BrokerProcess, source: str, target: str) -> None:
    """The table has the orders of the topic, the view their sums, and the topic of large ones these, each once."""
    published = [json.loads(row.value) for row in sdk_rows(broker, source) if row.value != b"no order"]
    orders = pq.read_table(place / "state" / "tables" / "orders").to_pylist()
    assert sorted(each["id"] for each in orders) == sorted(each["id"] for each in published)
    large = sorted(each["id"] for each in orders if each["amount"] >= 100)
    assert sorted(each["id"] for each in values_in(broker, target)) == large
    view = pq.read_table(place / "state" / "tables" / "revenue_by_country").to_pylist()
    countries = {each["country"] for each in orders}
    assert {each["country"]: (each["orders"], each["revenue"]) for each in view} == {
        country: (len(amounts), sum(amounts))
        for country in countries
        if (amounts := [each["amount"] for each in orders if each["country"] == country])
    }


def test_the_documented_commands_are_there() -> None:
    page = (ROOT / "docs" / "spark-examples.md").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", page)) <= targets
    scripts = re.findall(r"python (examples/\S+\.py)", page)
    assert {"examples/generate_orders.py"} <= set(scripts)
    assert all((ROOT / script).is_file() for script in scripts)
