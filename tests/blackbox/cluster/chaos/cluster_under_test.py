"""Three nodes and three etcd members on this machine, with everything they say to each other over a relay."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from blackbox.cluster.chaos.relay_process import Edge
from blackbox.cluster.chaos.relays import RelayProcess
from blackbox.cluster.replicated_nodes import NODES, Nodes, StartBroker
from blackbox.processes.broker_process import BrokerProcess, free_port
from blackbox.processes.small_disks import small_tmpfs
from etcd_cluster import EtcdCluster, running_etcd

WHOLE_SECONDS = 90.0
_LOOK_SECONDS = 0.2
DISK_BYTES = 160 * 1024 * 1024
MIN_FREE_BYTES = 2 * 1024 * 1024
SMALL_DISK_NODE = 3
ETCD = "etcd"


class ClusterUnderTest:
    """Nodes are reached at 127.0.0.11 and following, where the relay listens: each has an address of its own
    there, so that the same port is free for the relay."""

    def __init__(self, etcd: EtcdCluster, directory: Path, disk: Path | None, start: StartBroker) -> None:
        """`disk` is the small one of a node; None where mounting is not permitted."""
        self.etcd, self.directory, self.disk = etcd, directory, disk
        self.relays = RelayProcess(directory / "relay.log")
        self.held_bytes = 0
        try:
            self._options = {number: self._new_options(number) for number in NODES}
            self._nodes = Nodes("chaos", etcd, directory, start, self._options)
            for number, node in self.nodes.items():
                self.relays.listen([node.native_port], "client", str(number), _host(number), node.native_port)
            self.http_port = self.relays.listen([node.http_port for node in self.nodes.values()], "client", "http")
        except BaseException:
            self.relays.close()
            raise

    @property
    def nodes(self) -> dict[int, BrokerProcess]:
        return self._nodes.nodes

    @property
    def address(self) -> str:
        """For SDK clients, who go to the owners of partitions from there."""
        return ",".join(f"{_host(number)}:{node.native_port}" for number, node in self.nodes.items())

    def heal(self, *, breaks: bool = False) -> None:
        self.held_bytes += self.relays.heal(breaks=breaks)

    def is_whole(self) -> bool:
        """Every node is ready, and every replica is in sync."""
        for number in self.nodes:
            try:
                units = self._nodes.status(number)["workers"]
            except (OSError, ValueError, AssertionError):
                return False
            if not self._is_ready(number) or any(set(unit["isr"]) != set(unit["replicas"]) for unit in units):
                return False
        return True

    def _is_ready(self, number: int) -> bool:
        try:
            return self.nodes[number].request("GET", "/readyz", timeout=5.0)[0] == 200
        except (OSError, ValueError):
            return False

    def _await(self, check: Callable[[], bool], what: str) -> None:
        """Looks less often than `wait_until`: the machine is busy."""
        looking, deadline = threading.Event(), time.monotonic() + WHOLE_SECONDS
        while not check():
            assert time.monotonic() < deadline, f"not {what} within {WHOLE_SECONDS} s:\n{self.shown()}"
            looking.wait(_LOOK_SECONDS)

    def await_whole(self) -> None:
        self._await(self.is_whole, "whole")

    def shown(self) -> str:
        """How the nodes stand, for people."""
        return "\n".join(f"node {number}: {self._asked(node)}" for number, node in self.nodes.items())

    def start(self, *numbers: int) -> None:
        """Starts nodes again; returns when they are ready."""
        for number in numbers:
            self.nodes[number].start(wait=False)
        for number in numbers:
            self.nodes[number].wait_ready(WHOLE_SECONDS, ready=False)
            self._await(partial(self._is_ready, number), f"ready: node {number}")

    def start_on(self, number: int, directory: str) -> BrokerProcess:
        """A node on another data directory, in the directory of the test; does not wait for it."""
        return self._nodes.new(number, *self._options[number], directory=directory)

    def units(self) -> list[dict[str, Any]]:
        """As any node that responds knows them."""
        for number in NODES:
            with contextlib.suppress(OSError, ValueError, AssertionError):
                return list(self._nodes.status(number)["workers"])
        return []

    def between(self, node: int) -> tuple[list[Edge], list[Edge]]:
        """What goes out to the other nodes, and what comes in from them."""
        others = [str(other) for other in NODES if other != node]
        return [(str(node), other) for other in others], [(other, str(node)) for other in others]

    def close(self) -> None:
        self.relays.close()

    def _asked(self, node: BrokerProcess) -> Any:
        try:
            return node.request("GET", "/readyz?verbose=true", timeout=5.0), node.request("GET", "/cluster")[1]
        except (OSError, ValueError) as problem:
            return problem

    def _new_options(self, number: int) -> tuple[str, ...]:
        """Of `quiver serve`, after making the relays that they name."""
        link_port = free_port()
        self.relays.listen([link_port], "", str(number), _host(number), link_port)
        members = [f"127.0.0.1:{self.relays.listen([one.port], str(number), ETCD)}" for one in self.etcd.members]
        words = ["--etcd", ",".join(members), "--host", "127.0.0.1", "--advertise", _host(number)]
        words += ["--link-port", str(link_port), "--http-port", str(free_port())]
        return (*words, "--min-free-bytes", str(MIN_FREE_BYTES))


@contextlib.contextmanager
def cluster_under_test(directory: Path, start: StartBroker) -> Iterator[ClusterUnderTest]:
    with ExitStack() as stack:
        etcd = stack.enter_context(running_etcd(members=3))
        disk = None
        with contextlib.suppress(pytest.skip.Exception):
            disk = stack.enter_context(small_tmpfs(directory / f"node-{SMALL_DISK_NODE}", DISK_BYTES))
        cluster = ClusterUnderTest(etcd, directory, disk, start)
        stack.callback(cluster.close)
        try:
            yield cluster
        finally:
            cluster.heal()
            for node in cluster.nodes.values():
                node.close()


def _host(number: int) -> str:
    return f"127.0.0.{10 + number}"
