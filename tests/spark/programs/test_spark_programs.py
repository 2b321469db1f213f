"""What users of Spark see on their terminal."""

import subprocess
import sys
from pathlib import Path

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
