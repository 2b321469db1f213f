"""A driver, a task and a Python worker die in the middle of a query with the quiver sink: every row is there once."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import quiver
from blackbox.broker_process import BrokerProcess, wait_until
from spark.topic_rows import new_topic, publish, sdk_rows

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it"),
]
_ROWS = 400
_SECONDS = 300
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""The JVM compiles little: it does not live long."""


class Driver:
    """The process of tests/spark/sink_query.py, and the JVM that belongs to it."""

    def __init__(self, broker: BrokerProcess, source: str, target: str, place: Path) -> None:
        self.log = place / "driver.log"
        self.faults = place / "faults"
        self.faults.mkdir(exist_ok=True)
        script = Path(__file__).with_name("sink_query.py")
        words = [broker.address, source, target, str(place / "checkpoint"), str(self.faults)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(script), *words],
                stdout=log,
                stderr=log,
                env={**os.environ, "JDK_JAVA_OPTIONS": _QUICK_START},
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


def test_a_driver_a_task_and_a_worker_die(spark_broker: BrokerProcess, tmp_path: Path) -> None:
    source, target = new_topic(spark_broker), new_topic(spark_broker, partitions=3)
    publish(spark_broker, source, _ROWS)
    with Driver(spark_broker, source, target, tmp_path) as driver, quiver.connect(spark_broker.address) as client:

        def is_under_way() -> bool:
            assert driver.process.poll() is None, driver.log.read_text()[-4000:]
            return sum(client.offsets(target).values()) >= 50

        wait_until(is_under_way, _SECONDS, "the first rows are there")
        driver.kill()
    written = [row.value for row in sdk_rows(spark_broker, target)]
    assert len(set(written)) == len(written) < _ROWS

    for fault in ("raise", "kill"):
        (driver.faults / fault).touch()
    with Driver(spark_broker, source, target, tmp_path) as driver:
        assert driver.process.wait(_SECONDS) == 0, driver.log.read_text()[-4000:]
    assert {file.name for file in driver.faults.iterdir()} == {"raise.done", "kill.done"}
    assert sorted(row.value or b"" for row in sdk_rows(spark_broker, target)) == sorted(
        b"v%d" % n for n in range(_ROWS)
    )
    with quiver.connect(spark_broker.address) as client:
        left = [
            each for each in client.transactions.list() if each.state == "open" and target in dict(each.partitions)
        ]
    assert left == []
