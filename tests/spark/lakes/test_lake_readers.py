"""Who reads a lake: the examples of the documents, run as they are written, on lakes in other directories."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest, QuiverError
from quiver_spark.jobs import archive, optimize
from quiver_spark.lake.opening import lake_settings, open_lake
from quiver_spark.lake.reading import lake_frame
from spark.topic_rows import new_topic, publish, sdk_rows, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "lake.md"


def test_the_examples(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, other = new_topic(spark_broker), new_topic(spark_broker)
    publish(spark_broker, topic, 50)
    publish(spark_broker, other, 10)
    source = {"topics": f"{topic},{other}", "bootstrap": spark_broker.address}
    archive.run(spark, source, tmp_path / "lake")
    archive.run(spark, source, tmp_path / "iceberg", settings=lake_settings("iceberg", "date,partition"))
    expected = len([row for row in sdk_rows(spark_broker, topic) if row.partition == 0])
    assert 0 < expected < 50
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(examples) == 6
    for example in examples:
        found: dict[str, int] = {}
        exec(
            example.replace("/data", str(tmp_path)).replace("orders'", f"{topic}'").replace('orders"', f'{topic}"'),
            found,
        )
        assert found["rows"] == expected, example
    import polars as pl
    from pyiceberg.catalog import load_catalog

    uri = f"sqlite:///{tmp_path}/iceberg/_quiver/catalog.sqlite"
    table = load_catalog("quiver", type="sql", uri=uri).load_table("quiver.messages")
    assert pl.scan_iceberg(table).select(pl.len()).collect().item() == 60
    assert table.scan().to_duckdb("lake").sql("select count(*) from lake").fetchall() == [(60,)]


def test_columns_for_values_that_were_archived_before(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic = new_topic(spark_broker, partitions=1)
    for kind in ("delta", "iceberg"):
        lake = tmp_path / kind
        with quiver.connect(spark_broker.address) as client:
            for number in (5, 3, 4):
                client.publish(topic, {"id": number, "in": {"tags": [str(number)]}})
                archive.run(spark, {"topic": topic, "bootstrap": spark_broker.address}, lake,
                            settings=lake_settings(kind))  # fmt: skip
        ddl = "id BIGINT, `in` STRUCT<tags: ARRAY<STRING>>"
        done = optimize.run(spark, lake, topics=[topic], schema=ddl, sort_by=["id"])
        assert (done.files, done.details["files_replaced"]) == (1, 3)
        frame = lake_frame(spark, open_lake(lake))
        assert spark_rows(frame) == sdk_rows(spark_broker, topic)
        found = [(row.id, row["in"].tags) for row in frame.select("id", "in").collect()]
        ids = sorted(row[0] for row in found)
        assert found == [(number, [str(number)]) for number in ids], "sorted, as one file is read in order"
    with pytest.raises(InvalidRequest, match="has no topic 'none'"):
        optimize.run(spark, lake, topics=["none"])
    with pytest.raises(InvalidRequest, match="no column 'nothing' to sort by"):
        optimize.run(spark, lake, sort_by=["nothing"])


def test_files_that_are_damaged_foreign_or_lost(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    topic, sound = new_topic(spark_broker, partitions=1), new_topic(spark_broker, partitions=1)
    lake, source = tmp_path / "lake", {"topics": f"{topic},{sound}", "bootstrap": spark_broker.address}
    for _ in range(2):
        publish(spark_broker, topic, 10)
        publish(spark_broker, sound, 10)
        archive.run(spark, source, lake)
    damaged = next(file for file in open_lake(lake).files() if file.topic == topic)
    whole = (lake / damaged.path).read_bytes()
    (lake / damaged.path).write_bytes(whole[:50] + b"x" * (len(whole) - 50))
    (lake / f"topic={topic}" / "notes.txt").write_text("somebody else's")
    done = optimize.run(spark, lake)
    assert done.details["files_unreadable"] == [damaged.path]
    assert done.details["files_replaced"] == 2, "those of the other topic"
    assert spark_rows(lake_frame(spark, open_lake(lake), topics=[sound])) == sdk_rows(spark_broker, sound)
    (lake / damaged.path).write_bytes(whole)
    assert optimize.run(spark, lake).details["files_replaced"] == 2
    last = sorted((lake / "_delta_log").glob("*.json"))[-1]
    last.write_text("no JSON")
    with pytest.raises(QuiverError, match=f"the lake in {lake} cannot be used: .*Json"):
        open_lake(lake)
