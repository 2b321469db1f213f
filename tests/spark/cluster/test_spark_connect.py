"""Spark Connect: a session in another process than its driver reads and writes topics, and runs jobs."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import quiver
from blackbox.processes.broker_process import BrokerProcess, wait_until
from spark.cluster.standalone_cluster import START_SECONDS, NodeProcess, environment
from spark.topic_rows import sdk_rows

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("java") is None, reason="no Java: scripts/system-packages installs it"),
]
_SECONDS = 300.0
_ROWS, _KEYS = 40, 4
_LISTENING = re.compile(r"Spark Connect server started at: \S+:(\d+)")
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NodeProcess]:
    words = ["--conf", "spark.connect.grpc.binding.port=0", "--conf", "spark.ui.enabled=false"]
    words += ["--master", "local[2,4]", "--class", _SERVER, "spark-internal"]
    own = {"SPARK_DAEMON_MEMORY": "1g", "PYSPARK_PYTHON": sys.executable}
    node = NodeProcess(tmp_path / "server", "SparkSubmit", *words, **own)
    yield node
    node.kill()


def test_a_remote_session_reads_and_writes_topics(
    server: NodeProcess, spark_broker: BrokerProcess, tmp_path: Path
) -> None:
    with quiver.connect(spark_broker.address) as client:
        for topic in ("remote", "remote-copy"):
            client.topics.create(topic, partitions=2)
        with client.producer("remote") as producer:
            producer.send_many([b"%d" % n for n in range(_ROWS)], [b"k%d" % (n % _KEYS) for n in range(_ROWS)])
    port = wait_until(lambda: server.said(_LISTENING), START_SECONDS, "a Spark Connect server")
    program = str(Path(__file__).with_name("connect_client.py"))
    words = [spark_broker.address, f"sc://127.0.0.1:{port}", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, program, *words], capture_output=True, text=True, timeout=_SECONDS, env=environment()
    )
    assert done.returncode == 0, done.stderr[-4000:]
    module, by_key, archived, is_clean = json.loads(done.stdout)
    assert (archived, is_clean) == (_ROWS, True)
    assert module == "pyspark.sql.connect.session"
    assert by_key == {f"k{number}": _ROWS // _KEYS for number in range(_KEYS)}
    assert "there is no topic 'no-such-topic'" in done.stderr
    published = [row.value for row in sdk_rows(spark_broker, "remote")]
    copied = [row.value for row in sdk_rows(spark_broker, "remote-copy")]
    assert sorted(copied, key=repr) == sorted(published * 2, key=repr), "once by the write, once by the stream"
