"""`quiver produce TOPIC`: messages from arguments, standard input or files."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, TopicArgument, connect
from quiver.cli.line_input import known_size, read_chunks, split_keys
from quiver.cli.output import Output, OutputOption, show_record, show_rows
from quiver.cli.progress import progress
from quiver.model.errors import InvalidRequest

if TYPE_CHECKING:
    from quiver.client import Client


def produce(
    topic: TopicArgument,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="Messages; without any, lines of standard input.")
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
    partition: Annotated[int | None, typer.Option("--partition", "-p", help="The partition to write to.")] = None,
    priority: Annotated[str | None, typer.Option(help="critical, high, normal, low or background.")] = None,
    ttl: Annotated[str | None, typer.Option(help="The messages expire after this long, such as 1h.")] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver this much later, such as 5m.")] = None,
    deliver_at: Annotated[str | None, typer.Option(help="Deliver at this time (RFC 3339).")] = None,
    compression: Annotated[str, typer.Option(help="none, lz4 or zstd.")] = "none",
    acks: Annotated[str, typer.Option(help="none, leader or all.")] = "all",
    address: AddressOption = DEFAULT_ADDRESS,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send messages: arguments, lines of standard input, or lines of files."""
    if values and (file or key_separator):
        raise InvalidRequest(problem="give either messages as arguments or lines (--file, --key-separator), not both")
    if key is not None and key_separator is not None:
        raise InvalidRequest(problem="give either --key or --key-separator, not both")
    options = {
        "headers": parse_headers(header),
        "partition": partition,
        "priority": priority,
        "ttl": ttl,
        "delay": delay,
        "deliver_at": deliver_at,
    }
    options = {name: value for name, value in options.items() if value is not None}
    producing = {"compression": compression, "acks": acks}
    with connect(address) as q:
        if values:
            _send_values(q, topic, values, key, options, producing, output)
        else:
            separator = None if key_separator is None else _unescaped(key_separator)
            _send_lines(q, topic, file or ["-"], key, separator, options, producing, output)
