"""`quiver consume --group`: prints messages as a member of a group, which remembers its position."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from quiver.cli.formats.message_format import Format, Row
from quiver.model.errors import GroupNotFound, QuiverError

if TYPE_CHECKING:
    from quiver.client import Client, Message, Stream

_CLIENT_ID = "quiver-consume"
_FIRST_LOOK_SECONDS = 0.05
_LAST_LOOK_SECONDS = 1.0


class GroupReading(NamedTuple):
    topic: str
    group: str
    start: str | None
    """Where a group without a position begins; None where the user did not say."""
    limit: int | None
    follow: bool
    shape: Format
    isolation: str
    read_from: str = "leader"


class Stopped(KeyboardInterrupt):
    """The end came while the reader waited for a message, so everything that it got is printed."""


class Stop:
    """Ends reading between two messages: by Ctrl-C, SIGTERM, or (SIGALRM, sent by us) when everything was read.

    Handlers run in the main thread, between its steps. They raise only while the reader waits, so a message that was
    handed out is printed before the end. A second Ctrl-C ends the program wherever it is.
    """

    def __init__(self) -> None:
        self.by_signal: int | None = None
        self.is_wanted = False
        self.is_waiting = False

    def on_signal(self, number: int, frame: Any) -> None:
        if number != signal.SIGALRM:
            if self.by_signal is not None:
                raise KeyboardInterrupt
            self.by_signal = number
        self.is_wanted = True
        if self.is_waiting:
            self.is_waiting = False
            raise Stopped

    @contextmanager
    def installed(self) -> Iterator[None]:
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
        _note(f"--from is not used: group {reading.group!r} has committed offsets (quiver group reset moves them)")
    stop = Stop()
    with stop.installed():
        _read(q, reading, stop)
    if stop.by_signal is not None:
        raise typer.Exit(128 + stop.by_signal)


def _read(q: "Client", reading: GroupReading, stop: Stop) -> None:
    ends: dict[int, int] = {}

    def hold_back(partitions: list[tuple[str, int]]) -> None:
        for topic, number in partitions:
            if stream.positions[topic, number] >= ends.get(number, 0):
                stream.pause(topic, number)

    stream = q.stream(
        reading.topic,
        group=reading.group,
        client_id=_CLIENT_ID,
        start=reading.start or "earliest",
        isolation=reading.isolation,
        read_from=reading.read_from,
        on_assign=None if reading.follow else hold_back,
    )
    if not reading.follow:
        ends |= q.offsets(reading.topic, "latest", isolation=reading.isolation)
    is_printed = False
    try:
        with _end_watched(q, stream, reading, ends, stop):
            _print(stream, reading, ends, stop)
        is_printed = True
    except Stopped:
        is_printed = True
    finally:
        stop.is_waiting = False
        stream.close(done=is_printed)
    if stream.lost_count:
        _note(f"retention removed {stream.lost_count} messages before they were read")
    if stream.expired_count:
        _note(f"{stream.expired_count} expired messages were left out")


def _print(stream: "Stream", reading: GroupReading, ends: dict[int, int], stop: Stop) -> None:
    """Writes each message before it asks for the next, which is what counts it as read by the group."""
    left = sys.maxsize if reading.limit is None else reading.limit
    render, row_of, out = reading.shape.render, _row_maker(reading.shape), sys.stdout.buffer
    follow, topic = reading.follow, reading.topic
    stop.is_waiting = True
    for message in stream:
        stop.is_waiting = False  # no handler runs between the line above and this one
        out.write(render((row_of(message),)))
        out.flush()
        left -= 1
        if left == 0 or stop.is_wanted:
            return
        if not follow and message.offset + 1 >= ends.get(message.partition, 0):
            stream.pause(topic, message.partition)
        stop.is_waiting = True


def _row_maker(shape: Format) -> "Callable[[Message], Row]":
    """What is not shown is not read."""
    with_time, with_headers = "timestamp" in shape.fields, "headers" in shape.fields

    def row_of(message: "Message") -> Row:
        return Row(
            message.topic,
            message.partition,
            message.offset,
            message.timestamp if with_time else 0,
            message.key,
            message.value,
            message.headers if with_headers else {},
            message.priority,
        )

    return row_of


@contextmanager
def _end_watched(
    q: "Client", stream: "Stream", reading: GroupReading, ends: dict[int, int], stop: Stop
) -> Iterator[None]:
    """Without --follow, stops the reader when this member's share of what was there is read."""
    if reading.follow:
        yield
        return
    main, is_over = threading.get_ident(), threading.Event()

    def watch() -> None:
        wait = _FIRST_LOOK_SECONDS
        while not is_over.wait(wait):
            wait = min(2 * wait, _LAST_LOOK_SECONDS)
            if stop.is_waiting and _is_finished(q, stream, reading, ends):
                signal.pthread_kill(main, signal.SIGALRM)
                return

    watcher = threading.Thread(target=watch, name="quiver-end-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()


def _is_finished(q: "Client", stream: "Stream", reading: GroupReading, ends: dict[int, int]) -> bool:
    """Whether the group is settled, and this member has read its partitions up to `ends`."""
    try:
        group = q.groups.describe(reading.group)
        mine = [sorted(member.partitions) for member in group.members if member.id == stream.member_id]
        if group.state != "stable" or mine != [stream.assignment]:
            return False
        positions = {number: offset for (_, number), offset in stream.positions.items()}
        unread = {number: offset for number, offset in positions.items() if offset < ends.get(number, 0)}
        return not unread or _is_hole(q, reading, unread, ends)
    except QuiverError:  # the reader gets the same error and reports it
        return False


def _is_hole(q: "Client", reading: GroupReading, starts: dict[int, int], ends: dict[int, int]) -> bool:
    """Whether there is no message at all from `starts` to `ends`: offsets may be skipped, as after a crash."""
    stops = {number: ends[number] for number in starts}
    partitions, isolation = list(starts), reading.isolation
    with q.read(
        reading.topic, start=starts, end=stops, partitions=partitions, max_bytes=1024, isolation=isolation
    ) as reader:
        return next(iter(reader), None) is None


def _has_position(q: "Client", reading: GroupReading) -> bool:
    try:
        partitions = q.groups.describe(reading.group).partitions
    except GroupNotFound:
        return False
    return any(part.topic == reading.topic and part.committed is not None for part in partitions)


def _note(text: str) -> None:
    typer.echo(f"quiver: {text}", err=True)
