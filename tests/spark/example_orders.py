"""Orders for the pipelines in examples/, and their commands."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import quiver
from blackbox.processes.broker_process import BrokerProcess
from spark.topic_rows import sdk_rows

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LONG = bool(os.environ.get("QUIVER_LONG"))
"""A new Spark takes half a minute; `make chaos` has more of them."""
SECONDS = 400
_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def order(second: float, country: str, amount: float) -> dict[str, Any]:
    at = (_NOON + timedelta(seconds=second)).isoformat()
    return {"id": int(second), "at": at, "customer": "customer-7", "country": country, "amount": amount}


def run_example(script: Path, *words: str) -> str:
    """What an example printed; it has to end well."""
    return _run(str(script), *words)


def run_quiver(*words: str) -> str:
    """What a command printed; it has to end well."""
    return _run("-m", "quiver", *words)


def _run(*words: str) -> str:
    command = [sys.executable, *words]
    # The JVM compiles little: it does not live long. Spark Connect listens on a free port, not on the default one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QUIVER_")}
    environment |= {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1", "SPARK_TESTING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def publish_orders(broker: BrokerProcess, topic: str, values: list[Any]) -> None:
    with quiver.connect(broker.address) as client, client.producer(topic) as producer:
        for value in values:
            producer.send(value, "some key")


def values_in(broker: BrokerProcess, topic: str) -> list[Any]:
    return [json.loads(row.value or b"null") for row in sdk_rows(broker, topic)]
