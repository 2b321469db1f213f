"""The topics and groups of a run, and what all its actors share: where the broker is, the history, when to stop."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import quiver
from blackbox.interleaving.history import Recorder
from quiver.model.errors import QuiverError

Kind = Literal["queue", "poll", "stream"]


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    topic: str
    kind: Kind
    is_ordered: bool = False
    copies_to: str = ""
    """Settled only in transactions that publish a copy of the message there."""


MAX_ATTEMPTS = 6
VISIBILITY_SECONDS = 2.0
SESSION = "6s"

ORDERS, JOBS, COPIES = "orders", "jobs", "copies"
PARTITIONS = {ORDERS: 3, JOBS: 2, COPIES: 2}
SETTINGS: dict[str, Any] = {
    "visibility": f"{VISIBILITY_SECONDS}s",
    "max_attempts": MAX_ATTEMPTS,
    "backoff": "50ms",
    "backoff_max": "200ms",
}

LANES = Group("lanes", ORDERS, "queue", is_ordered=True)
TAKERS = Group("takers", JOBS, "queue")
PLAIN = Group("plain", ORDERS, "queue")
COPYING_TAKERS = Group("copying-takers", JOBS, "queue", copies_to=COPIES)
READERS = Group("readers", ORDERS, "stream")
COPYING_READERS = Group("copying-readers", ORDERS, "stream", copies_to=COPIES)
POLLERS = Group("pollers", ORDERS, "poll")
COPYING_POLLERS = Group("copying-pollers", JOBS, "poll", copies_to=COPIES)
REWINDERS = Group("rewinders", JOBS, "poll")
REPEATERS = Group("repeaters", JOBS, "queue")
"""Rewinders and repeaters are sent back from time to time."""
STREAM_GROUPS = (READERS, COPYING_READERS)
POLL_GROUPS = (POLLERS, COPYING_POLLERS, REWINDERS)
QUEUE_GROUPS = (LANES, TAKERS, PLAIN, COPYING_TAKERS, REPEATERS)
GROUPS = (*QUEUE_GROUPS, *STREAM_GROUPS, *POLL_GROUPS)


@dataclass(slots=True)
class World:
    http_port: int
    address: str
    """For SDK clients."""
    seed: int
    recorder: Recorder
    groups: tuple[Group, ...] = GROUPS
    """Those that take part."""
    pace: float = 1.0
    """How much longer publishers pause."""
    stopping: threading.Event = field(default_factory=threading.Event)
    quiet: threading.Event = field(default_factory=threading.Event)
    """Set at the end of the load: nothing new comes, and consumers settle all they get."""
    delayed: list[tuple[str, int, int]] = field(default_factory=list)
    """Messages that were delayed: topic, partition and id."""
    members: list[str] = field(default_factory=list)
    """Of groups that poll."""
    _enders: list[tuple[list[threading.Event], Callable[[], Any]]] = field(default_factory=list)

    def chance(self, actor: str) -> random.Random:
        return random.Random(f"{self.seed} {actor}")

    def rest(self, seconds: float = 0.05) -> bool:
        """Waits a little; whether the run is being stopped."""
        return self.stopping.wait(seconds)

    def is_over(self, chance: random.Random, least: float, most: float) -> bool:
        """Waits as a publisher does between two requests; whether the load ends."""
        return self.quiet.wait(chance.uniform(least, most) * self.pace)

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """An SDK client, as soon as the broker is there; what the `with` block raises for a while, it may raise."""
        while True:
            try:
                client = quiver.connect(self.address, tracing=0.3)
                client.connect()
                break
            except QuiverError as error:
                if not error.retryable:
                    raise
                self.rest()
        with client:
            yield client

    @contextlib.contextmanager
    def ended_by(self, events: list[threading.Event], end: Callable[[], Any]) -> Iterator[None]:
        """Calls `end` when one of the events (`stopping`, `quiet`) comes while the block runs."""
        entry = (events, end)
        self._enders.append(entry)
        try:
            if any(event.is_set() for event in events):
                end()
            yield
        finally:
            self._enders.remove(entry)

    def set(self, event: threading.Event) -> None:
        """Begins the quiet time, or stops the run."""
        event.set()
        for awaited, end in list(self._enders):
            if event in awaited:
                with contextlib.suppress(QuiverError):
                    end()
