"""What the members of a group saw: when partitions came to them, and when messages did."""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(slots=True)
class Reading:
    """The life of one member; times are of the monotonic clock, which all processes of a machine share."""

    joined_at: float = 0.0
    left_at: float = 0.0
    """When it began to join, and to leave."""
    assigned: list[tuple[float, int]] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    """Time and partition."""
    error: BaseException | None = None


class Phases(NamedTuple):
    """First the group is left alone, then members come and go."""

    quiet_from: float
    changes_from: float
    end: float


class Gaps(NamedTuple):
    """Seconds between two messages of a partition."""

    quiet: list[float]
    """While the group was left alone."""
    staying: list[float]
    """During changes, where the partition did not move between the two."""
    moving: list[float]


class Member:
    """A member of a group that reads messages in a thread of its own until it is asked to leave."""

    def __init__(self, client: Any, topic: str, group: str) -> None:
        self._reading = Reading()
        self._stream = client.stream(topic, group=group, on_assign=self._on_assign)
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def join(self) -> None:
        self._reading.joined_at = time.monotonic()
        self._stream.open()
        self._thread.start()

    def leave(self) -> Reading:
        """Returns when the broker knows that the member is gone."""
        self._leaving.set()
        self._thread.join()
        if self._reading.error is not None:
            raise self._reading.error
        return self._reading

    def _read(self) -> None:
        arrivals = self._reading.arrivals
        try:
            for message in self._stream:
                arrivals.append((time.monotonic(), message.partition))
                if self._leaving.is_set():
                    break
            self._reading.left_at = time.monotonic()
            self._stream.close()
        except BaseException as error:
            self._reading.error = error

    def _on_assign(self, partitions: Sequence[tuple[str, int]]) -> None:
        now = time.monotonic()
        self._reading.assigned += [(now, partition) for _, partition in partitions]


def seconds_to_settle(moving: Iterable[Reading], staying: Sequence[Reading]) -> list[float]:
    """Of each join, then leave, of a moving member: until the last partition that it moved reached its new owner."""
    took: list[float] = []
    others = sorted(arrival for reading in staying for arrival in reading.assigned)
    for reading in moving:
        if not reading.assigned:
            raise RuntimeError("a member that joined received no partition")
        took.append(max(at for at, _ in reading.assigned) - reading.joined_at)
        taken_over: dict[int, float] = {}
        for at, partition in others:
            if at >= reading.left_at:
                taken_over.setdefault(partition, at)
        if orphans := {partition for _, partition in reading.assigned} - taken_over.keys():
            raise RuntimeError(f"nobody took over partitions {sorted(orphans)} from a member that left")
        took.append(max(taken_over[partition] for _, partition in reading.assigned) - reading.left_at)
    return took


def gaps(readings: Iterable[Reading], phases: Phases) -> Gaps:
    events: dict[int, list[tuple[float, bool]]] = {}
    for reading in readings:
        for is_arrival, times in ((False, reading.assigned), (True, reading.arrivals)):
            for at, partition in times:
                if phases.quiet_from <= at <= phases.end:
                    events.setdefault(partition, []).append((at, is_arrival))
    found = Gaps([], [], [])
    for of_partition in events.values():
        _add_gaps(sorted(of_partition), phases.changes_from, found)
    return found


def _add_gaps(events: Sequence[tuple[float, bool]], changes_from: float, found: Gaps) -> None:
    last: float | None = None
    moved = False
    for at, is_arrival in events:
        if not is_arrival:
            moved = True
            continue
        if last is not None:
            kind = found.moving if moved else found.quiet if at < changes_from else found.staying
            kind.append(at - last)
        last, moved = at, False
