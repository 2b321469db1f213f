"""Topics that differ in known ways, compared with each other and with a lake."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import archive, diff
from quiver_spark.jobs.diff.transforms import COMPARED
from spark.topic_rows import mixed_topic, new_topic, publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTCOMES = ("same", "different", "only_left", "only_right")


def outcomes(spark: "SparkSession", broker: BrokerProcess, left: str, right: str, **words: Any) -> tuple[int, ...]:
    sides = [{"topic": topic, "bootstrap": broker.address} for topic in (left, right)]
    details = diff.run(spark, *sides, **words).details
    assert details["is_same"] == (sum(details[name] for name in OUTCOMES[1:]) == 0)
    return tuple(details[name] for name in OUTCOMES)


def test_two_topics(spark: "SparkSession", spark_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = new_topic(spark_broker, partitions=1), new_topic(spark_broker, partitions=1)
    for topic in (left, right):
        publish(spark_broker, topic, 10)
    with quiver.connect(spark_broker.address) as client:
        client.publish(left, b"twice", key=b"k1")
        client.publish(left, b"twice", key=b"k1")
        client.publish(right, b"twice", key=b"k1")
        client.publish(right, b"other", key=b"k2")
    assert outcomes(spark, spark_broker, left, right) == (11, 0, 1, 1)
    assert outcomes(spark, spark_broker, left, right, by="key") == (6, 1, 0, 0)
    words = [left, right, "--bootstrap", spark_broker.address]
    assert diff.main([*words, "--by", "offset", "--output", "json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert [said[name] for name in OUTCOMES] == [11, 1, 0, 0]
    assert said["differences"] == [
        {"outcome": "different", "messages": 1, "left": f"{left}/0/11", "right": f"{right}/0/11"}
    ]
    assert diff.main([*words, "--dry-run"]) == 0
    assert diff.main([left, "--bootstrap", spark_broker.address]) == 1
    assert "name two topics, or a topic and a lake" in capsys.readouterr().err


def test_a_topic_and_its_archive(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, _ = mixed_topic(spark_broker)
    source = {"topic": topic, "bootstrap": spark_broker.address}
    rows = archive.run(spark, source, tmp_path).rows
    publish(spark_broker, topic, 4)
    details = diff.run(spark, source, lake=tmp_path, by="offset", columns=COMPARED).details
    assert tuple(details[name] for name in OUTCOMES) == (rows, 0, 4, 0)
