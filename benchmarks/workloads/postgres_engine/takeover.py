"""Two brokers on one PostgreSQL: how long a client waits for its next ack when the one that serves it ends."""

import json
import signal
import time
import urllib.request
from typing import Any

import quiver
from benchmarks.peers.postgres import Postgres
from benchmarks.percentiles import latency_metrics
from benchmarks.run import Run
from benchmarks.servers.broker import Broker
from benchmarks.servers.postgres import USER
from benchmarks.servers.server import HOST, free_port
from benchmarks.workloads.longest_publish import longest_publish

TOPIC = "taken-over"
KINDS = {"kill -9 of a broker": (signal.SIGKILL, 20), "SIGTERM to a broker": (signal.SIGTERM, 20)}
"""The signal, and how often it is sent."""
_LOOK_SECONDS = 0.05


def measure_postgres_takeover(run: Run) -> None:
    server = Postgres("postgres", synchronous_commit=True)
    if (reason := server.missing()) is not None:
        run.skip("postgres-takeover", reason)
        return
    try:
        server.start(run.scratch)
        _measure(run, f"postgresql://{USER}@{HOST}:{server.port}/postgres?schema=shared")
    finally:
        server.stop()


def _measure(run: Run, storage: str) -> None:
    brokers = {name: _broker(run, storage, name) for name in ("a", "b")}
    try:
        for broker in brokers.values():
            broker.start()
        with quiver.connect(_address(brokers)) as client:
            client.topics.create(TOPIC, partitions=1)
        for kind, (number, full_times) in KINDS.items():
            times = max(1, round(full_times * run.scale.share))
            with run.measuring("quiver-postgres", "takeover", durability="fsync", detail=kind) as metrics:
                metrics["times"] = times
                metrics |= latency_metrics("pause", [_pause(brokers, number) for _ in range(times)])
    finally:
        for broker in brokers.values():
            broker.discard()


def _broker(run: Run, storage: str, name: str) -> Broker:
    ports = ("--native-port", str(free_port()), "--http-port", str(free_port()))
    return Broker(run.scratch / f"taken-over-{name}", "--storage", storage, "--node-id", name, *ports)


def _address(brokers: dict[str, Broker]) -> str:
    return ",".join(broker.address for broker in brokers.values())


def _pause(brokers: dict[str, Broker], number: int) -> float:
    """What ends is started again afterwards."""
    _await_both(brokers)
    owner = brokers[_owner(brokers)]
    longest = longest_publish(_address(brokers), TOPIC, [owner.pid], number)
    owner.stop()
    owner.start()
    return longest


def _await_both(brokers: dict[str, Broker]) -> None:
    """Until each has its share of the workers."""
    while {worker.get("node") for worker in _status(brokers)["workers"]} != set(brokers):
        time.sleep(_LOOK_SECONDS)


def _owner(brokers: dict[str, Broker]) -> str:
    document = _status(brokers)
    return str(document["workers"][document["topics"][TOPIC][0]]["node"])


def _status(brokers: dict[str, Broker]) -> Any:
    port = next(iter(brokers.values())).http_port
    with urllib.request.urlopen(f"http://{HOST}:{port}/cluster?units=true", timeout=30) as response:
        return json.load(response)
