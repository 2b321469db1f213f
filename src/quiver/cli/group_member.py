"""`quiver consume --group`: prints messages as a member of a group, which remembers how far it came."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as count_from
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from quiver.cli.message_format import Format, Row
from quiver.model.errors import GroupNotFound, QuiverError

if TYPE_CHECKING:
    from quiver.client import Client
    from quiver.client._sync.stream import Stream
    from quiver.client.message import Message

_CLIENT_ID = "quiver-consume"
_FIRST_LOOK_SECONDS = 0.05
_LONGEST_LOOK_SECONDS = 1.0


class GroupReading(NamedTuple):
    topic: str
    group: str
    start: str | None
    count: int | None
    follow: bool
    shape: Format


class Stopped(KeyboardInterrupt):
    """The end came while the reader waited for a message, so everything that it got is printed."""


class Stop:
    """Ends reading between two messages: by Ctrl-C, SIGTERM, or because everything was read.

    Python runs signal handlers in the main thread, between its steps. The handler raises only while the reader waits;
    a message that was handed out is always printed first. A second Ctrl-C ends the program wherever it is.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_wanted = False
        self.is_waiting = True

    def on_signal(self, number: int, frame: Any) -> None:
        again, self.is_wanted = self.is_wanted, True
        self.signal = number if number != signal.SIGALRM else self.signal
        if again and number != signal.SIGALRM:
            raise KeyboardInterrupt
        if self.is_waiting:
            self.is_waiting = False
            raise Stopped

    @contextmanager
    def installed(self) -> Iterator[None]:
        """SIGALRM is the program's own: it stands for the end of what there is to read."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
        before = {number: signal.signal(number, self.on_signal) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def read_as_member(q: "Client", reading: GroupReading) -> None:
    """Prints until the end, the count or Ctrl-C; then commits what was printed, and leaves the group."""
    if reading.start is not None and _has_position(q, reading):
        _note(f"group {reading.group!r} has a position in {reading.topic!r}, so --from is not used; see group reset")
    stop = Stop()
    with stop.installed():
        try:
            _read(q, reading, stop)
        except KeyboardInterrupt:
            if stop.signal is None:
                return
    if stop.signal is not None:
        raise typer.Exit(128 + stop.signal)


def _read(q: "Client", reading: GroupReading, stop: Stop) -> None:
    ends = {} if reading.follow else q.offsets(reading.topic, "latest")
    stream = q.stream(
        reading.topic, group=reading.group, client_id=_CLIENT_ID, start=reading.start or "earliest"
    )
    printed = False
    try:
        with _watched(q, stream, reading, ends, stop):
            printed = _print(stream, reading, stop)
    except Stopped:
        printed = True
    finally:
        stop.is_waiting = False
        stream.close(done=printed)
        if stream.lost_count:
            _note(f"retention removed {stream.lost_count} messages before they were read")
