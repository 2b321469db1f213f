"""What users of Spark see on their terminal."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from blackbox.processes.broker_process import BrokerProcess
from spark.topic_rows import new_topic, publish


def test_a_program_that_reads_no_further_prints_no_traceback(quick_spark: None, spark_broker: BrokerProcess) -> None:
    topic = new_topic(spark_broker, partitions=1)
    publish(spark_broker, topic, 200_000)
    driver = Path(__file__).with_name("read_driver.py")
    command = [sys.executable, str(driver), spark_broker.address, topic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "3 2 1" in done.stdout
    assert "TABLE_OR_VIEW_NOT_FOUND" in done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    assert "BrokenPipe" not in done.stderr, done.stderr


REFUSED = r"Spark does not pass the options of CREATE TABLE .* Use CREATE TEMPORARY VIEW name USING quiver OPTIONS"


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
