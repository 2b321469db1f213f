"""Three nodes with replicas on a real etcd, for tests."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until
from etcd_cluster import EtcdCluster
from quiver.cluster.placement import Placement

SECONDS = 60.0
NODES = (1, 2, 3)
StartBroker = Callable[..., BrokerProcess]


class Nodes:
    """A cluster of its own on an etcd that others may use, too."""

    def __init__(
        self,
        name: str,
        etcd: EtcdCluster,
        directory: Path,
        start: StartBroker,
        options: Mapping[int, tuple[str, ...]] | None = None,
    ) -> None:
        """`options` of `quiver serve`, by node."""
        self.name, self._etcd, self._directory, self._start = name, etcd, directory, start
        self._ports = {number: free_port() for number in NODES}
        """Clients know them, so nodes keep them when they are started again."""
        self.nodes = {number: self.new(number, *(options or {}).get(number, ())) for number in NODES}
        for node in self.nodes.values():
            node.wait_ready(SECONDS)

    def new(self, number: int, *options: str, directory: str | None = None) -> BrokerProcess:
        """Of the number; does not wait for it."""
        host = self._etcd.address(self.name).removeprefix("etcd://").removesuffix(f"/{self.name}")
        arguments = ["--cluster", self.name, "--etcd", host, "--node-id", str(number), *options]
        arguments += ["--native-port", str(self._ports[number]), "--rack", "a" if number % 2 else "b"]
        return self._start(*arguments, data_dir=self._directory / (directory or f"node-{number}"), wait=False)

    def add(self, number: int, *options: str) -> BrokerProcess:
        """One more node; does not wait for it."""
        self._ports[number] = free_port()
        self.nodes[number] = self.new(number, *options)
        return self.nodes[number]

    @property
    def address(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def status(self, number: int) -> dict[str, Any]:
        status, document = self.nodes[number].request("GET", "/cluster")
        assert status == 200, document
        assert isinstance(document, dict)
        return document

    def leaders(self, asked: int) -> set[str]:
        return {worker["node"] for worker in self.status(asked)["workers"]}

    def leader(self, topic: str, partition: int, asked: int) -> int:
        """The node that leads a partition."""
        workers = self.status(asked)["workers"]
        owner = Placement(0, len(workers)).partition_worker(topic, partition)
        return int(workers[owner]["node"])

    def await_all_in_sync(self, asked: int) -> None:
        def in_sync() -> bool:
            return all(set(each["isr"]) == set(each["replicas"]) for each in self.status(asked)["workers"])

        wait_until(in_sync, SECONDS, "all replicas are in sync")
