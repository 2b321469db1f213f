"""The pipelines that users copy (examples/, docs/spark-examples.md), as they are shipped, each by its command."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from blackbox.processes.broker_process import BrokerProcess, free_port
from spark.example_orders import EXAMPLES, LONG, ROOT, SECONDS, order, publish_orders, run_example, values_in
from spark.topic_rows import new_topic, sdk_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it"),
]


@pytest.mark.parametrize("script", ["generate_orders.py", "revenue_per_minute.py"])
def test_without_a_broker_they_say_what_to_do(script: str) -> None:
    command = [sys.executable, str(EXAMPLES / script), "--broker", f"127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
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
    run_example(
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
    assert "Run is COMPLETED" in run_example(pipeline / "run.py")
    _check_tables(tmp_path, spark_broker, source, target)

    if not LONG:
        return
    publish_orders(spark_broker, source, [b"no order", order(1, "XX", 100), order(2, "XX", 99.99)])
    assert "Run is COMPLETED" in run_example(pipeline / "run.py")
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
