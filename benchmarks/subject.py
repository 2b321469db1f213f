"""A subject: a broker together with a client for it, seen through the roles of producers and consumers."""

from pathlib import Path
from subprocess import Popen
from typing import Any

from benchmarks.payload import Compression, Payload
from benchmarks.roles import Watch
from benchmarks.servers.server import stop

KEYS = 100_000


class Subject:
    """Subclasses fill in the texts, the counts and the roles.

    Each role runs in a process of its own on a copy of the subject, without its server's process handles.
    """

    name = ""
    client = ""
    """The client and how it is used."""
    durability = ""
    """What an acknowledgement means for the disk."""
    version = ""
    bulk_messages = 100_000
    """For bulk publish and consume at full scale: about two seconds of work."""
    both_messages = 100_000
    """For both at once."""
    large_share = 0.5
    """Of these numbers, when messages have 1 KB."""
    work_messages = 0
    """For receiving and acknowledging as a work queue; 0: it has no acknowledgement of single messages."""
    keyed_messages = 0
    """For publishing by key to many partitions; 0: it has no partitions, or this use of it is measured elsewhere."""
    has_latency = True
    """False: it would be that of another subject."""
    compressions: tuple[Compression, ...] = ()
    """What its client can do to bodies, beside leaving them as they are."""

    def __init__(self) -> None:
        self._processes: list[Popen[bytes]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def missing(self) -> str | None:
        """Why this subject cannot be measured here, or None."""
        raise NotImplementedError

    def start(self, scratch: Path) -> None:
        """Starts a server on free ports with its data under `scratch`, and sets `version`."""
        raise NotImplementedError

    def stop(self) -> None:
        for process in self._processes:
            stop(process)
        self._processes = []

    def pids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def reset(self) -> None:
        """A fresh, empty stream or queue."""
        raise NotImplementedError

    def reset_wide(self, partitions: int) -> None:
        """A fresh, empty topic of many partitions."""
        raise NotImplementedError

    def produce(self, count: int, payload: Payload, watch: Watch) -> None:
        """Publishes in bulk; done when every message is acknowledged."""
        raise NotImplementedError

    def produce_keyed(self, count: int, payload: Payload, watch: Watch) -> None:
        """The same with a key for each message, `KEYS` different ones, so that all partitions are written."""
        raise NotImplementedError

    def consume(self, count: int, watch: Watch) -> None:
        """Receives in bulk, every body as Python bytes; done when all are received and acknowledged."""
        raise NotImplementedError

    def work(self, count: int, batch: int, watch: Watch) -> None:
        """As a work queue: receives `batch` messages at a time and acknowledges them; with 1 each one by itself.

        Done when the last acknowledgement is out, and answered where the client can tell.
        """
        raise NotImplementedError

    def produce_paced(self, count: int, payload: Payload, rate: float, watch: Watch) -> list[float]:
        """Publishes stamped messages one by one at `rate` a second; the seconds from publish to ack of each."""
        raise NotImplementedError

    def consume_stamped(self, count: int, watch: Watch) -> list[float]:
        """Receives stamped messages; the seconds from publish to receive of each."""
        raise NotImplementedError
