"""What README and documents show of Spark, run as it is written, against a broker on another port."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import quiver_spark
from blackbox.processes.broker_process import BrokerProcess
from spark.topic_rows import new_topic, publish, sdk_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]


def _examples(document: str) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    return [example for example in found if "quiver_spark" in example]


def test_the_readme(spark: "SparkSession", spark_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = _examples("README.md")
    orders, receipts = new_topic(spark_broker, partitions=2), new_topic(spark_broker)
    publish(spark_broker, orders, 30)
    spark.conf.set("spark.sql.catalog.quiver.bootstrap", spark_broker.address)
    quiver_spark.register_tables(spark)
    here = (
        example.replace("quiver.orders", f"quiver.`{orders}`")
        .replace('"orders"', f'"{orders}"')
        .replace('"receipts"', f'"{receipts}"')
    )
    exec(here.replace('.option("topic"', f'.option("bootstrap", "{spark_broker.address}").option("topic"'), {})
    shown = re.findall(r"\|\s*(\d)\|\s*(\d+)\|", capsys.readouterr().out)
    assert sum(int(count) for _, count in shown[:2]) == sum(int(last) + 1 for _, last in shown[2:]) == 30
    assert {row.value for row in sdk_rows(spark_broker, receipts)} < {
        row.value for row in sdk_rows(spark_broker, orders)
    }
    assert len(sdk_rows(spark_broker, receipts)) == 10
