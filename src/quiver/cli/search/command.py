"""`quiver search TOPIC EXPRESSION`: prints the messages that fit, the newest first. The broker looks for them."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from quiver.cli.connection import DEFAULT_ADDRESS, AddressOption, connect
from quiver.cli.formats.message_format import FORMAT_HELP, Row, parse_format
from quiver.cli.lazy_group import command_app
from quiver.cli.options.names import TopicArgument

if TYPE_CHECKING:
    from quiver.client import FoundMessage

_POSITION = "earliest, latest, an offset, a time ago such as -2h, or a time (RFC 3339)"


def search(
    topic: TopicArgument,
    where: Annotated[
        str, typer.Argument(metavar="EXPRESSION", help="Such as 'value.total > 300 and key == \"c-1\"'.")
    ],
    start: Annotated[str, typer.Option("--from", help=f"Where the range begins: {_POSITION}.")] = "earliest",
    end: Annotated[str, typer.Option("--to", help="Where it ends, in the same form.")] = "latest",
    limit: Annotated[int, typer.Option("-n", "--limit", help="Stop after this many messages.")] = 100,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition; may be repeated.")
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Begin with the oldest message.")] = False,
    max_messages: Annotated[
        int | None, typer.Option("--max-messages", help="Stop after looking at this many messages.")
    ] = None,
    max_time: Annotated[str, typer.Option("--max-time", help="Stop after this time, at most 1h.")] = "60s",
    cursor: Annotated[str | None, typer.Option("--cursor", help="Go on where the same search stopped.")] = None,
    include_expired: Annotated[bool, typer.Option("--include-expired", help="Also print expired messages.")] = False,
    format: Annotated[str, typer.Option("--format", help=FORMAT_HELP)] = "full",
    address: AddressOption = DEFAULT_ADDRESS,
) -> None:
    """Print the messages that fit an expression, the newest first."""
    shape = parse_format(format)
    with connect(address) as q:
        found = q.search(
            topic,
            where,
            start=start,
            end=end,
            partitions=partition or None,
            newest_first=not oldest_first,
            include_expired=include_expired,
            limit=limit,
            max_messages=max_messages,
            max_time=max_time,
            cursor=cursor,
        )
        try:
            for message in found:
                sys.stdout.buffer.write(shape.render([_row(message)]))
                sys.stdout.buffer.flush()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        progress = found.progress
    typer.echo(f"quiver: found {progress.matched}, looked at {progress.scanned:,} of {progress.total:,}", err=True)
    if progress.cursor is not None:
        typer.echo(f"quiver: stopped by {progress.stopped_by}; go on with --cursor '{progress.cursor}'", err=True)


def _row(message: "FoundMessage") -> Row:
    return Row(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        message.headers,
        message.priority,
    )


app = command_app(search)
