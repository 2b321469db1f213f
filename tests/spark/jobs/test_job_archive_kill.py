"""An archive whose driver is killed in the middle: nothing is missing or double after the next run."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver_spark.jobs import archive
from quiver_spark.lake.opening import open_lake
from spark.lake_rows import lake_files, lake_rows, parquet_paths
from spark.topic_rows import new_topic, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 110


def test_a_driver_killed_before_its_commit(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    """The files of the second round are there, and count for nothing."""
    topic, lake = new_topic(spark_broker), tmp_path / "lake"
    with quiver.connect(spark_broker.address) as client, client.producer(topic) as producer:
        for partition in (0, 1):
            producer.send_many([bytes([number % 251]) * 2000 for number in range(9000)], partition=partition)
    source = {"topic": topic, "bootstrap": spark_broker.address}
    killed = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed_archive.py")), json.dumps(source), str(lake)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert killed.returncode == -9, killed.stderr[-3000:]
    committed = len(lake_rows(lake))
    assert 0 < committed < 18_000
    left = set(parquet_paths(lake)) - {file.path for file in lake_files(lake)}
    assert left, killed.stdout
    assert archive.run(spark, source, lake).rows == 18_000 - committed
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)
    assert left <= set(open_lake(lake).vacuum(0))
    assert set(parquet_paths(lake)) == {file.path for file in lake_files(lake)}
    assert lake_rows(lake) == sdk_rows(spark_broker, topic)
