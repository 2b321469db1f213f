"""`quiver produce TOPIC`: messages from arguments, standard input or files."""

import os
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.message_format import unescape
from quiver.cli.formats.output import Output, OutputOption, show_record, show_rows
from quiver.cli.formats.progress import progress
from quiver.cli.interruption import EXIT_STATUS, Interruption
from quiver.cli.lazy_group import command_app
from quiver.cli.line_input import known_size, read_chunks, split_keys
from quiver.cli.options.names import TopicArgument
from quiver.model.errors import InvalidRequest, QuiverError

if TYPE_CHECKING:
    from quiver.client import BulkSendFuture, Producer, Published


def produce(
    topic: TopicArgument,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE", help="Messages; by default the lines of standard input.")
    ] = None,
    file: Annotated[
        list[str] | None, typer.Option("--file", "-f", help="Send each line of a file; - is standard input.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every message.")] = None,
    key_separator: Annotated[
        str | None, typer.Option(help="Lines are KEY, this text, VALUE; \\t is a tab.", metavar="TEXT")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", help="A header of every message.", metavar="NAME=VALUE")
    ] = None,
    id: Annotated[
        list[str] | None,
        typer.Option("--id", help="The id of a message, once for each VALUE; a known id is not stored again."),
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="The partition to write to.")] = None,
    priority: Annotated[str | None, typer.Option(help="critical, high, normal, low or background.")] = None,
    ttl: Annotated[str | None, typer.Option(help="The messages expire after this long, such as 1h.")] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver after this time, such as 5m.")] = None,
    deliver_at: Annotated[str | None, typer.Option(help="Deliver at this time (RFC 3339).")] = None,
    compression: Annotated[str, typer.Option(help="none, lz4 or zstd.")] = "none",
    acks: Annotated[str, typer.Option(help="none, leader or all.")] = "all",
    timeout: Annotated[
        str, typer.Option(help="How long to try to reach the broker, and to send each message.")
    ] = "30s",
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send messages: arguments, lines of standard input, or lines of files."""
    if values and (file or key_separator):
        raise InvalidRequest(problem="give either messages as arguments or lines (--file, --key-separator), not both")
    if key is not None and key_separator is not None:
        raise InvalidRequest(problem="give either --key or --key-separator, not both")
    if key_separator == "":
        raise InvalidRequest(problem="--key-separator needs at least one character")
    if id and len(id) != len(values or ()):
        raise InvalidRequest(problem="give --id once for each message, and messages as arguments")
    options = {"headers": parse_headers(header), "partition": partition, "priority": priority, "ttl": ttl}
    options |= {"delay": delay, "deliver_at": deliver_at}
    sending = {name: value for name, value in options.items() if value is not None}
    key_bytes = None if key is None else os.fsencode(key)
    separator = None if key_separator is None else os.fsencode(unescape(key_separator))
    with ExitStack() as stack:
        files = [] if values else [_open(name, stack) for name in file or ["-"]]
        q = stack.enter_context(connect(address, timeout=timeout))
        linger = "1h" if values else "5ms"  # arguments are flushed together, so they keep their order
        out = stack.enter_context(
            q.producer(topic, linger=linger, compression=compression, acks=acks, delivery_timeout=timeout)
        )
        if values:
            show_rows(_send_values(out, topic, values, key_bytes, sending, id), output)
        else:
            lines = _Lines(out, files)
            show_record({"topic": topic, **lines.send(key_bytes, separator, sending)}, output)
            if lines.was_interrupted:
                raise typer.Exit(EXIT_STATUS)


def parse_headers(words: list[str] | None) -> dict[str, bytes] | None:
    headers: dict[str, bytes] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidRequest(problem=f"header {word!r} is not NAME=VALUE")
        headers[name] = os.fsencode(value)
    return headers or None


def _open(name: str, stack: ExitStack) -> BinaryIO:
    if name == "-":
        if sys.stdin.isatty():
            typer.echo("Type messages, one per line; Ctrl-D ends.", err=True)
        return sys.stdin.buffer
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        raise InvalidRequest(problem=f"cannot read {name}: {error.strerror}") from None


def _send_values(
    out: "Producer",
    topic: str,
    values: list[str],
    key: bytes | None,
    sending: dict[str, Any],
    ids: list[str] | None = None,
) -> list[dict[str, Any]]:
    named: list[dict[str, Any]] = [{"id": os.fsencode(id)} for id in ids or ()] or [{}] * len(values)
    futures = [
        out.send(os.fsencode(value), key, **sending, **name) for value, name in zip(values, named, strict=True)
    ]
    out.flush()
    places = [future.result() for future in futures]
    return [_place(topic, place) | ({"duplicate": place.duplicate} if ids else {}) for place in places]


def _place(topic: str, place: "Published") -> dict[str, Any]:
    if place.delayed:
        return {"topic": topic, "partition": place.partition, "delayed_id": f"{place.partition}:{place.offset}"}
    return {"topic": topic, "partition": place.partition, "offset": place.offset}


class _Lines:
    """Sends every line; stops at the first error and at Ctrl-C. What was sent before stays sent."""

    def __init__(self, out: "Producer", files: list[BinaryIO]) -> None:
        self._out, self._files = out, files
        self._futures: deque[BulkSendFuture] = deque()
        self._interruption = Interruption()
        self._messages = self._stored = self._bytes = 0

    def send(self, key: bytes | None, separator: bytes | None, sending: dict[str, Any]) -> dict[str, Any]:
        began = monotonic()
        try:
            with self._interruption.watched(), progress("sending", known_size(self._files)) as advance:
                chunks = chain.from_iterable(read_chunks(file) for file in self._files)
                while (chunk := self._next(chunks)) is not None:
                    lines, size_bytes = chunk
                    keys, values = _keyed(lines, key, separator)
                    self._futures.append(self._out.send_many(values, keys=keys, **sending))
                    self._take_results(wait=False)
                    self._messages += len(lines)
                    self._bytes += size_bytes
                    advance(len(lines), size_bytes)
                self._take_results(wait=True)
        except (QuiverError, KeyboardInterrupt) as error:
            self._report_stored()
            if isinstance(error, KeyboardInterrupt):
                raise typer.Exit(EXIT_STATUS) from None
            raise
        return {"messages": self._messages, "bytes": self._bytes, "seconds": round(monotonic() - began, 3)}

    @property
    def was_interrupted(self) -> bool:
        return self._interruption.requested

    def _next(self, chunks: Iterator[tuple[list[bytes], int]]) -> tuple[list[bytes], int] | None:
        try:
            with self._interruption.waiting():
                return next(chunks, None)
        except KeyboardInterrupt:
            typer.echo("quiver: interrupted; sending what was read so far (Ctrl-C again stops at once)", err=True)
            return None

    def _take_results(self, *, wait: bool) -> None:
        if wait:
            self._out.flush()
        while self._futures and (wait or self._futures[0].done):
            future = self._futures.popleft()
            future.result()
            self._stored += future.count

    def _report_stored(self) -> None:
        rest = self._messages - self._stored
        unknown = f"; {rest:,} more were sent and may or may not be stored" if rest else ""
        typer.echo(f"quiver: {self._stored:,} messages were stored{unknown}", err=True)


def _keyed(
    lines: list[bytes], key: bytes | None, separator: bytes | None
) -> tuple[list[bytes | None] | None, list[bytes]]:
    if separator is not None:
        return split_keys(lines, separator)
    return (None if key is None else [key] * len(lines)), lines


app = command_app(produce)
