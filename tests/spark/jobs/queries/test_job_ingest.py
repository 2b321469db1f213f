"""Files and tables into topics: every row once, whatever is run again."""

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from blackbox.processes.broker_process import BrokerProcess
from quiver.model.errors import InvalidRequest
from quiver_spark.jobs import ingest
from quiver_spark.jobs.ingest.table import Table
from spark.example_orders import values_in
from spark.topic_rows import new_topic, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lines(numbers: range) -> str:
    return "".join(json.dumps({"id": number, "country": "DE"}) + "\n" for number in numbers)


def _no_session() -> "SparkSession":
    raise AssertionError("there is nothing to ingest: Spark need not be started")


def test_files_of_all_kinds_once(
    spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, place = f"{new_topic(spark_broker)}-files", tmp_path / "in"
    (place / "deep").mkdir(parents=True)
    (place / "a.json").write_text(lines(range(3)) + "\n")
    (place / "deep" / "b.csv").write_text("id,country\n3,AT\n4,\n")
    pq.write_table(pa.table({"id": [5], "country": ["CH"]}), place / "c.parquet")
    (place / "_half.json").write_text("not yet")
    words = [str(place), "--to", topic, "--bootstrap", spark_broker.address, "--key", "id", "--output", "json"]
    assert ingest.main([*words, "--dry-run"]) == 0
    assert len(json.loads(capsys.readouterr().out)["would_read"]) == 3
    assert ingest.main([*words, "--progress"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["files"], said["commits"]) == (6, 3, 3)
    rows = {row.key: json.loads(row.value or b"") for row in sdk_rows(spark_broker, topic)}
    assert rows[b"1"] == {"id": 1, "country": "DE"}
    assert rows[b"4"] == {"id": "4", "country": None}
    assert rows[b"5"] == {"id": 5, "country": "CH"}

    (place / "d.jsonl").write_text(lines(range(6, 8)))
    assert ingest.main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["rows"], said["files_done_before"]) == (2, 3)
    assert len(sdk_rows(spark_broker, topic)) == 8

    with (place / "a.json").open("a") as file:
        file.write(lines(range(9, 10)))
    assert ingest.main(words) == 1
    assert "was changed since it was ingested" in capsys.readouterr().err
    again = partial(ingest.run, _no_session, [str(place)], topic, bootstrap=spark_broker.address)
    assert again(changed="skip").rows == 0


def test_a_table_once(spark: "SparkSession", spark_broker: BrokerProcess, tmp_path: Path) -> None:
    topic, url = f"{new_topic(spark_broker)}-table", f"jdbc:derby:{tmp_path}/db;create=true"
    jvm: Any = spark._jvm
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    driver = {"driver": "org.apache.derby.jdbc.EmbeddedDriver"}

    def insert(start: int, stop: int) -> None:
        frame = spark.range(start, stop).selectExpr("id ID", "concat('n', id) NAME").coalesce(1)
        frame.write.format("jdbc").options(url=url, dbtable="orders", **driver).mode("append").save()

    table = Table(url, "orders", "ID", driver)
    insert(1, 6)
    assert ingest.run_table(spark, table, topic, bootstrap=spark_broker.address, dry_run=True).details["from"] == 1
    for stop, rows in ((9, 5), (9, 3), (9, 0)):
        summary = ingest.run_table(spark, table, topic, bootstrap=spark_broker.address, key="ID", batch_numbers=4)
        assert summary.rows == rows
        if rows == 5:
            insert(6, stop)
    assert sorted(each["ID"] for each in values_in(spark_broker, topic)) == list(range(1, 9))


def test_what_cannot_be_ingested(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "x.unknown").touch()
    os.utime(tmp_path / "x.unknown")
    for places, problem in (([str(tmp_path / "none")], "there is no file"), ([str(tmp_path)], "name its format")):
        with pytest.raises(InvalidRequest, match=problem):
            ingest.run(lambda: pytest.fail("Spark is not needed"), places, "x", bootstrap=spark_broker.address)
