"""`/cluster` while a worker is stopped: what is known is shown at once, with how old it is."""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blackbox.processes.broker_process import BrokerProcess, wait_until

SECONDS = 60.0
LOOK_SECONDS = 1.0


class OneWorker:
    """Requests to the same worker of a broker: over one connection."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._connection = http.client.HTTPConnection(broker.http.removeprefix("http://"), timeout=SECONDS)
        self.pid = self.get("/node")["pid"]

    def get(self, path: str) -> Any:
        self._connection.request("GET", path)
        with self._connection.getresponse() as response:
            document = json.load(response)
            assert response.status == 200, document
        return document

    def worker(self, number: int) -> Any:
        return self.get("/cluster")["workers"][number]

    def seconds_of(self, path: str) -> float:
        """The quickest of some: the machine may be busy."""
        took = []
        for _ in range(5):
            begun = time.monotonic()
            self.get(path)
            took.append(time.monotonic() - begun)
        return min(took)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[OneWorker]:
    with BrokerProcess(tmp_path / "data", "--workers", "3") as process:
        assert process.request("POST", "/topics", {"name": "orders", "partitions": 9})[0] == 201
        asked = OneWorker(process)
        yield asked
        asked.close()


def test_what_is_known_of_a_stopped_worker_is_shown_at_once(asked: OneWorker) -> None:
    wait_until(lambda: {each["age"] for each in asked.get("/cluster")["workers"]} == {0}, SECONDS, "all respond")
    before = next(each for each in asked.get("/cluster")["workers"] if each["pid"] != asked.pid)
    stopped = before["worker"]
    os.kill(before["pid"], signal.SIGSTOP)
    try:
        wait_until(lambda: asked.worker(stopped)["state"] != "running", SECONDS, "it is missed")
        wait_until(lambda: asked.get("/cluster/health")["status"] == "down", SECONDS, "health tells it")
        for path in ("/cluster", "/cluster?units=true", "/cluster/nodes", "/cluster/health", "/cluster/partitions"):
            assert asked.seconds_of(path) < LOOK_SECONDS / 2, path
        shown = asked.worker(stopped)
        assert shown["age"] > LOOK_SECONDS
        for field in ("pid", "partitions", "group_shards", "roles"):
            assert shown[field] == before[field], "what it said last"
        assert asked.get("/cluster")["units"][stopped]["leader"] is None
        assert asked.get("/cluster/health")["units_without_leader"] == [stopped]
        assert stopped not in asked.get("/cluster/nodes")["nodes"][0]["leaders"]
    finally:
        os.kill(before["pid"], signal.SIGCONT)
    wait_until(lambda: asked.worker(stopped)["state"] == "running", SECONDS, "it responds again")
    assert asked.worker(stopped)["age"] == 0
    wait_until(lambda: asked.get("/cluster/health")["status"] == "ok", SECONDS, "all is well")
