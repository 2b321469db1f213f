"""The pipelines that users copy (examples/, docs/spark-examples.md), as they are shipped, each by its command."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, free_port
from spark.example_orders import (
    EXAMPLES,
    LONG,
    ROOT,
    SECONDS,
    order,
    publish_orders,
    run_example,
    run_quiver,
    values_in,
)
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
def test_the_declarative_pipeline_writes_every_order_once(
    quick_spark: None, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    source = new_topic(spark_broker)
    target, project = f"{source}-large", tmp_path / "pipeline"
    words = ["--from", source, "--to", target, "--bootstrap", spark_broker.address]
    assert "test_orders.py" in run_quiver("pipeline", "init", str(project), *words)
    count = ["--topic", source, "--minutes", "1", "--rate", "5", "--count", "0"]
    run_example(EXAMPLES / "generate_orders.py", "--broker", spark_broker.address, *count)
    publish_orders(spark_broker, source, [b"no order", order(1, "XX", 100), order(2, "XX", -1)])
    assert "Run is COMPLETED" in run_quiver("pipeline", "run", str(project))
    _check_tables(project, spark_broker, source, target)
    _check_dead_letters(spark_broker, source)
    if not LONG:
        return
    publish_orders(spark_broker, source, [b"no order", order(3, "XX", 100), order(4, "XX", 99.99)])
    assert "Run is COMPLETED" in run_quiver("pipeline", "run", str(project))
    _check_tables(project, spark_broker, source, target)
    assert [each["amount"] for each in values_in(spark_broker, target) if each["country"] == "XX"] == [100, 100]


def _check_dead_letters(broker: BrokerProcess, source: str) -> None:
    """What is not as expected is a dead letter that says where it was and why."""
    with quiver.connect(broker.address) as client:
        found = list(client.dead_letters.list(source, reason="rejected", group="pipeline"))
    rows = {(row.partition, row.offset): row.value for row in sdk_rows(broker, source)}
    errors = {}
    for each in found:
        assert each.original is not None
        assert each.original.topic == source
        assert rows[each.original.partition, each.original.offset] == each.value
        errors[each.value] = each.last_error.removeprefix("expectation failed: ")
    everything = "it is an order; country is two letters; amount is positive"
    assert sorted(errors.values()) == ["amount is positive", everything]
    assert errors[b"no order"] == everything


def _check_tables(place: Path, broker: BrokerProcess, source: str, target: str) -> None:
    """The table has the orders of the topic, the view their sums, and the topic of large ones these, each once."""
    published = [json.loads(row.value) for row in sdk_rows(broker, source) if row.value != b"no order"]
    published = [each for each in published if each["amount"] > 0]
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
