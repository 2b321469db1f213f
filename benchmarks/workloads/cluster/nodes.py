"""Three nodes of a replicated cluster on this machine."""

import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.servers.broker import Broker
from benchmarks.servers.server import HOST, free_port

NUMBERS = (1, 2, 3)
_LOOK_SECONDS = 0.05


class Nodes:
    """What a subject uses of a broker, and more."""

    def __init__(self, scratch: Path, etcd: str) -> None:
        self.nodes = {number: _node(scratch, etcd, number) for number in NUMBERS}

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.nodes.values()]

    def start(self) -> None:
        with ThreadPoolExecutor() as threads:  # a new cluster begins when all three are there
            list(threads.map(Broker.start, self.nodes.values()))
        self.await_settled()

    def discard(self) -> None:
        for node in self.nodes.values():
            node.discard()

    def leader(self, topic: str) -> int:
        """The node that leads the first partition of a topic."""
        document = self._status(units=True)
        worker = document["topics"][topic][0]
        return int(document["workers"][worker]["node"])

    def await_settled(self) -> None:
        """Until every replica is in sync, and preferred leaders lead."""
        while not all(
            each.get("node") == each["replicas"][0] and set(each["isr"]) == set(each["replicas"])
            for each in self._status()["workers"]
        ):
            time.sleep(_LOOK_SECONDS)

    def _status(self, *, units: bool = False) -> Any:
        node = next(node for node in self.nodes.values())
        url = f"http://{HOST}:{node.http_port}/cluster?units={str(units).lower()}"
        with urllib.request.urlopen(url, timeout=30) as response:
            return json.load(response)


def _node(scratch: Path, etcd: str, number: int) -> Broker:
    cluster = ("--cluster", "bench", "--etcd", etcd, "--node-id", str(number))
    ports = ("--native-port", str(free_port()), "--http-port", str(free_port()))
    return Broker(scratch / f"cluster-node-{number}", *cluster, *ports)
