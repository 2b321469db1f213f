"""What happened during a run: an event for every request about a message or a position, with its times.

Times are of the monotonic clock, which all processes of the machine share. An event that was begun and never ended
(its process was killed, its connection broke) stays `unknown`: it may or may not have been carried out.
"""

import itertools
import json
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["ok", "refused", "unknown"]


@dataclass(slots=True)
class Event:
    what: str
    actor: str = ""
    began: float = 0.0
    ended: float = math.inf
    outcome: Outcome = "unknown"
    message: str = ""
    topic: str = ""
    group: str = ""
    partition: int = -1
    offset: int = -1
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def may_count(self) -> bool:
        """Whether it was carried out, or may have been."""
        return self.outcome != "refused"

    def overlaps(self, other: "Event") -> bool:
        return other.began < self.ended and self.began < other.ended

    def line(self, zero: float = 0.0) -> str:
        place = f"{self.topic}-{self.partition}@{self.offset}" if self.topic else ""
        words = [f"{self.began - zero:9.3f} {self.ended - zero:9.3f}", f"{self.actor:24}", self.what, self.outcome]
        words += [word for word in (self.group, place, self.message) if word]
        return " ".join([*words, *(f"{name}={value}" for name, value in self.details.items())])


class Recorder:
    """Takes events from any thread. With a path every event is also in that file as soon as it has begun."""

    def __init__(self, path: Path | None = None) -> None:
        self.events: list[Event] = []
        self._numbers = itertools.count()
        self._open: dict[int, int] = {}
        self._lock = threading.Lock()
        self._file = None if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def begin(self, what: str, actor: str, *, began: float | None = None, **fields: Any) -> Event:
        """An event whose outcome is not known yet. Fields that an event does not have are its details."""
        known = {
            name: fields.pop(name) for name in ("message", "topic", "group", "partition", "offset") & fields.keys()
        }
        event = Event(what, actor, time.monotonic() if began is None else began, details=fields, **known)
        with self._lock:
            self._open[id(event)] = next(self._numbers)
            self.events.append(event)
            self._write(event)
        return event

    def end(self, event: Event, outcome: Outcome = "ok", **fields: Any) -> Event:
        for name in ("partition", "offset") & fields.keys():
            setattr(event, name, fields.pop(name))
        event.details |= fields
        event.ended, event.outcome = time.monotonic(), outcome
        with self._lock:
            self._write(event)
        return event

    def note(self, what: str, actor: str, **fields: Any) -> Event:
        return self.end(self.begin(what, actor, **fields))

    def _write(self, event: Event) -> None:
        if self._file is not None:
            line = json.dumps([self._open[id(event)], asdict(event)])
            os.write(self._file, line.encode() + b"\n")


def read_events(paths: Iterable[Path]) -> Iterator[Event]:
    """The events that recorders of other processes wrote, each as it was last, without lines that a kill cut off."""
    for path in paths:
        found: dict[int, Event] = {}
        for line in path.read_text().splitlines():
            try:
                number, fields = json.loads(line)
            except ValueError:
                continue
            found[number] = Event(**fields)
        yield from found.values()
