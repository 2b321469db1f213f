"""What clients did and were told, in the order in which they began."""

import math
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from quiver.model.errors import (
    Closed,
    ConnectionLost,
    CoordinationUnavailable,
    NotLeader,
    QuiverError,
    RequestTimeout,
    ShuttingDown,
    WorkerUnavailable,
)
from quiver.testing.simulation.world import World

Outcome = Literal["ok", "refused", "unknown"]
_UNANSWERED = (
    *(ConnectionLost, RequestTimeout, ShuttingDown, Closed),
    *(WorkerUnavailable, NotLeader, CoordinationUnavailable),
)
_TROUBLE_SECONDS = 0.2
"""This long after a fault a connection may still break because of it."""


@dataclass(slots=True)
class Event:
    """One request of a client, or something it saw. Before the response, its effect is unknown."""

    what: str
    actor: str
    began: float
    ended: float = math.inf
    outcome: Outcome = "unknown"
    error: str = ""
    result: Any = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def may_count(self) -> bool:
        return self.outcome != "refused"

    def __str__(self) -> str:
        details = " ".join(f"{name}={value}" for name, value in self.details.items())
        error = f" ({self.error})" if self.error else ""
        return f"{self.began:10.4f} {self.ended:10.4f} {self.actor}: {self.what} {self.outcome}{error} {details}"


class History:
    def __init__(self, world: World, faults: list[tuple[float, float]] | None = None) -> None:
        self.events: list[Event] = []
        self._world = world
        self._faults = [] if faults is None else faults
        self._parts: list[History] = []
        self.stale_seconds = 0.0
        """What is looked at may be as it was so long ago: a leader that was deposed may not know it."""

    def part(self) -> "History":
        """A separate part of the same world: each workload checks only what its own clients did."""
        part = History(self._world, self._faults)
        part.stale_seconds = self.stale_seconds
        self._parts.append(part)
        return part

    def all_events(self) -> list[Event]:
        """With those of all parts."""
        return sorted((*self.events, *(e for part in self._parts for e in part.events)), key=lambda e: e.began)

    def fault(self, what: str, *, lasts_seconds: float = 0.0, **details: Any) -> None:
        """Something broke. A refusal around this time may be that of a request that was sent twice."""
        self._faults.append((self._world.now, self._world.now + lasts_seconds))
        self.saw(what, "world", **details)

    def saw(self, what: str, actor: str, **details: Any) -> Event:
        event = self.begin(what, actor, **details)
        event.ended, event.outcome = event.began, "ok"
        return event

    def begin(self, what: str, actor: str, **details: Any) -> Event:
        event = Event(what, actor, self._world.now, details=details)
        self.events.append(event)
        self._world.note(what, actor, sorted(details.items(), key=lambda item: item[0]))
        return event

    def end(self, event: Event, error: QuiverError | None = None) -> None:
        """It got its response, or was given up."""
        event.ended = self._world.now
        if error is None:
            event.outcome = "ok"
        else:
            event.error = f"{type(error).__name__}: {error}"
            if not isinstance(error, _UNANSWERED) and not self._was_repeated(event):
                event.outcome = "refused"
        self._world.note(event.what, event.actor, event.outcome, event.error)

    async def request(self, what: str, actor: str, call: Awaitable[Any], **details: Any) -> Event:
        """Awaits a call. Its errors are recorded and not raised."""
        event = self.begin(what, actor, **details)
        try:
            event.result = await call
        except QuiverError as error:
            self.end(event, error)
        else:
            self.end(event)
        return event

    def as_of(self, look: Event) -> float:
        """What had happened by then is seen by a look."""
        return look.began - self.stale_seconds

    def was_disturbed(self, event: Event) -> bool:
        """Whether its request may have been sent twice, because a connection or a broker was lost meanwhile."""
        return self._was_repeated(event)

    def of(self, *what: str) -> Iterator[Event]:
        return (event for event in self.events if event.what in what)

    def _was_repeated(self, event: Event) -> bool:
        """Whether the request may have been sent again: the refusal may be that of the repeat."""
        return any(
            event.began - _TROUBLE_SECONDS <= end and begin <= event.ended for begin, end in reversed(self._faults)
        )


def sure_spans(events: Sequence[Event], begin: str, end: str) -> Iterator[tuple[float, float]]:
    """When a state surely holds: from the end of a request that sets it, until one that ends it and may count."""
    ends = [event for event in events if event.what == end and event.may_count]
    for event in events:
        if event.what == begin and event.outcome == "ok":
            following = (each.began for each in ends if each.outcome == "unknown" or each.ended > event.began)
            yield event.ended, min(following, default=math.inf)


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was not kept. `about` is a value that occurs in the details of the events that tell how."""

    sentence: str
    about: str = ""
