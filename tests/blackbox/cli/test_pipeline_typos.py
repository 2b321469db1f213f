"""What is wrong with the names and arguments of a job is said before Spark starts, which it cannot without Java."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
NO_TOPIC = "there is no topic 'ordrs'"


@pytest.fixture(scope="module")
def topic(shared_broker: BrokerProcess) -> str:
    with quiver.connect(shared_broker.address) as client:
        client.topics.create("typo-orders", partitions=2)
        client.topics.create("typo-orders.dlq", partitions=2)
        client.publish("typo-orders", b"1")
        client.publish("typo-orders.dlq", b"1")
    return "typo-orders"


def _said(broker: BrokerProcess, *words: str) -> str:
    """The one message of a job that is refused."""
    environment = {**os.environ, "JAVA_HOME": "/nowhere/at/all", "QUIVER_ADDRESS": broker.address}
    command = [sys.executable, "-m", "quiver", "pipeline", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 1, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("archive ordrs --lake {dir}/lake", NO_TOPIC),
        ("archive {topic} --lake {dir}/lake --compression zip", "compression 'zip' is not one of"),
        ("archive {topic} --lake {dir}/lake --schema {dir}/none.ddl", "there is no file"),
        ('archive {topic} --lake {dir}/lake --from {{"7":1}}', "names partition 7, which does not exist"),
        ("archive {topic} --lake {dir}/lake --from -2", "-2 is not an offset"),
        ("replay ordrs --into {topic}", NO_TOPIC),
        ("replay {topic} --into ordrs", NO_TOPIC),
        ("replay {topic} --into ordrs --dry-run", NO_TOPIC),
        ("replay {topic} --lake {dir}/none --into {topic}", "there is no lake in"),
        ("replay {topic} --into {topic} --run-id a/b", "run id 'a/b'"),
        ("compact ordrs --into {topic}", NO_TOPIC),
        ("compact {topic} --into {topic} --transaction-timeout soon", "is not a duration"),
        ("compact {topic}", "say where the last values go"),
        ("audit ordrs", NO_TOPIC),
        ("audit {topic} --lake {dir}/none", "there is no lake in"),
        ("latency ordrs --path {dir} --out {dir}/out", "{dir}"),
        ("dead-letters report ordrs", NO_TOPIC),
        ("dead-letters report {topic} --reason expird", "'expird' is not a reason; there are"),
        ("dead-letters redrive {topic} --into ordrs", NO_TOPIC),
        ("audit {topic} --conf nonsense", "'nonsense' is not NAME=VALUE"),
    ],
)
def test_a_typo_is_said_before_spark_starts(
    shared_broker: BrokerProcess, topic: str, tmp_path: Path, words: str, says: str
) -> None:
    given = [word.format(topic=topic, dir=tmp_path) for word in words.split(" ")]
    said = _said(shared_broker, *given)
    assert says.format(dir=tmp_path) in said
    assert "Java" not in said
    assert not (tmp_path / "lake").exists(), "nothing is made for a job that cannot run"


def test_what_is_right_starts_spark(shared_broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    for words in (["archive", topic, "--lake", str(tmp_path)], ["replay", topic, "--into", topic], ["audit", topic]):
        assert "Spark needs Java and there is none in JAVA_HOME (/nowhere/at/all)" in _said(shared_broker, *words)
