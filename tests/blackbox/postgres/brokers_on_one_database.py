"""Brokers with ports and data directories of their own, on one database."""

from collections import Counter
from pathlib import Path

from blackbox.processes.broker_process import BrokerProcess, free_port, wait_until

SECONDS = 60.0


class Brokers:
    """Brokers with ports and data directories of their own, on one database."""

    def __init__(self, directory: Path, database: str, count: int) -> None:
        ports = [free_port() for _ in range(count)]
        self.brokers = [
            BrokerProcess(
                directory / f"broker-{number}",
                *("--storage", database, "--native-port", str(port), "--node-id", f"n{number}"),
            )
            for number, port in enumerate(ports)
        ]
        self._addresses = [f"127.0.0.1:{port}" for port in ports]

    @property
    def addresses(self) -> str:
        return ",".join(self._addresses)

    def of(self, count: int) -> list[BrokerProcess]:
        """The first ones; nobody knows of the others."""
        self._addresses = self._addresses[:count]
        return self.brokers[:count]

    def __getitem__(self, number: int) -> BrokerProcess:
        return self.brokers[number]

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()


def owners(asked: BrokerProcess) -> list[str]:
    """The nodes of all workers that run; empty strings where one does not."""
    document = asked.request("GET", "/cluster")[1]
    return [
        each["node"] if each["state"] == "running" and not each["next_node"] else "" for each in document["workers"]
    ]


def await_owners(asked: BrokerProcess, *nodes: str) -> None:
    """Every worker runs, on these nodes, and none has two more than another."""

    def is_balanced() -> bool:
        found = Counter(owners(asked))
        return set(found) == set(nodes) and max(found.values()) - min(found.values()) <= 1

    wait_until(is_balanced, SECONDS, f"workers run on {nodes}")
