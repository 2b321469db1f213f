"""What a profile says about messages that are known."""

import json
from typing import TYPE_CHECKING

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import profile
from spark.topic_rows import new_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MESSAGES = 60


def described_topic(broker: BrokerProcess) -> str:
    """Orders with a field that is sometimes null, sometimes missing and sometimes of another type."""
    topic = new_topic(broker)
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        for number in range(_MESSAGES):
            order: dict[str, object] = {"id": number, "country": ("DE", "AT", "CH")[number % 3]}
            if number % 4:
                order["amount"] = None if number % 4 == 1 else number / 2
            order["customer"] = {"name": f"n{number % 10}"}
            headers = {"source": b"web"} if number < 20 else {}
            producer.send(json.dumps(order).encode(), b"k%d" % (number % 5), headers=headers)
        producer.send(b"\xff\x00")
        producer.send(None, b"k1")
    return topic


def test_columns_types_and_sizes(
    spark: "SparkSession", spark_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = described_topic(spark_broker)
    words = [topic, "--bootstrap", spark_broker.address]
    assert profile.main([*words, "--output", "json", "--progress"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["with_key"], said["keys"], said["tombstones"]) == (_MESSAGES + 2, _MESSAGES + 1, 5, 1)
    assert sum(part["rows"] for part in said["partitions"]) == said["rows"]
    columns = {column["column"]: column for column in said["columns"]}
    assert columns["value"]["types"] == {"json object": _MESSAGES, "binary": 1}
    assert columns["value.country"]["types"] == {"string": _MESSAGES}
    assert columns["value.country"]["distinct"] == 3
    assert (columns["value.id"]["low"], columns["value.id"]["high"]) == (0, _MESSAGES - 1)
    amount = columns["value.amount"]
    assert (amount["nulls"], sum(amount["types"].values())) == (15, 30)
    assert amount["missing"] == said["rows"] - 45
    assert columns["value.customer.name"]["distinct"] == 10
    assert columns["headers.source"]["types"] == {"string": 20}
    assert columns["key"]["nulls"] == 1

    assert profile.main([*words, "--sample", "0.5"]) == 0
    table = capsys.readouterr().out
    assert "value.customer.name" in table
    assert "messages by partition" in table
    assert "█" in table


def test_a_dry_run_and_an_empty_topic(spark: "SparkSession", spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker)
    source = {"topic": topic, "bootstrap": spark_broker.address}
    assert profile.run(spark, source).details["columns"] == []
    assert profile.run(spark, source, dry_run=True).details == {"topic": topic, "dry_run": True}
